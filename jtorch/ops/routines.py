"""Where a namespace has routines of its own for what a composite would compute slower: NumPy's has some.

They are its submodules with an underscore, ``ops/xp/_linear.py`` and others, and no part of the dialect.
"""

from __future__ import annotations


def runs_at_once(xp):
    """Whether a function of the namespace computes when it is called: NumPy's. Others may fuse loops."""
    return hasattr(xp, "_products")


def records(xp):
    """Whether the namespace writes down what is computed, to be compiled: a compiled function's."""
    return hasattr(xp, "_tracer")


def formula(xp, function, *values):
    """``function(xp, *values)``: in one pass, if the namespace can."""
    found = direct(xp, "_formulas", "computed", function, *values)
    return function(xp, *values) if found is None else found


def direct(xp, module, routine, *values, **facts):
    """What the namespace's own routine gives; None where it has none, or that does not apply."""
    routines = getattr(xp, module, None)
    return None if routines is None else getattr(routines, routine)(*values, **facts)
