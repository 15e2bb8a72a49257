"""Programs that write files of this repository from the op table and from the signatures in the code.

Each has a ``text`` function, writes when it is run (``python -m tools.stubs``), and a test compares.
"""
