"""Names that only PyTorch's scripts ask for, each thin.

The folder is on the package's search path: ``jit.py`` is what users import as ``jtorch.jit``. Such a page
holds no state; jtorch itself imports what it needs from here by its whole name, ``jtorch.compat.legacy``.
"""
