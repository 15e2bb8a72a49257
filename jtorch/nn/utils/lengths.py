"""Lengths of sequences as Python numbers: they decide how much is computed."""

from __future__ import annotations

from jtorch.core.errors import CompileError, user_source
from jtorch.eager.public import Tensor, reads_elements


def numbers_in(lengths: Tensor, of: str) -> list[int]:
    """The elements. Raises CompileError, naming ``of``, while a program is recorded, which others share."""
    if not reads_elements():
        raise CompileError(
            f"{user_source()}: the {of} decide what is computed, and are others at each call of a compiled "
            "function: compute over the padded sequences and a mask, or leave this function uncompiled."
        )
    return [int(n) for n in lengths.tolist()]
