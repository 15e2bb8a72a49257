"""Run an unmodified PyTorch script on jtorch: ``python -m jtorch.as_torch script.py arguments...``

``import torch`` and every ``torch.x.y``, ``torchvision`` included, give jtorch's own modules; PyTorch itself
is never imported, installed or not. A name that jtorch lacks is an error that says which, where in the
script, and whether it is planned; ``--report script.py`` lists all of them without running anything.

    aliases    the import hook
    missing    what a missing name's error says, and the table of what is planned
    stubs      stand-ins for whole packages that scripts import and may never use
    report     the names a script uses, against what is there
    children   processes started by the script get the hook, too
"""

from jtorch.as_torch.aliases import install

__all__ = ["install"]
