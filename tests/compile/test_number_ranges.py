"""A number of the call that a dtype cannot hold is refused by a compiled function, as in eager mode."""

from __future__ import annotations

import jtorch

PROGRAMS = {
    "masked_fill": lambda x, k: x.masked_fill(x > 0, k),
    "alpha": lambda x, k: x.add(x, alpha=k),
    "fill_": lambda x, k: x.clone().fill_(k),
    "full_like": lambda x, k: jtorch.full_like(x, k),
    "index_fill": lambda x, k: x.index_fill(0, jtorch.tensor([0]), k),
    "where": lambda x, k: jtorch.where(x > 0, x, k),
}
DTYPES = ("int64", "uint8", "bool", "float16", "float32")
NUMBERS = (1.0, 2.7, 1e6, 65519.0, 1e39, -1.0, 3, 300, -1)


def _outcome(function, x, k):
    try:
        found = function(x, k)
    except (RuntimeError, OverflowError) as error:
        return str(error)
    return found.dtype, found.tolist()


def test_numbers_of_the_call_are_checked_at_each_call():
    failures = []
    for name, program in PROGRAMS.items():
        for dtype in DTYPES:
            x = jtorch.ones(2, dtype=getattr(jtorch, dtype))
            compiled = jtorch.compile(program, mode="interpret")
            for k in NUMBERS:
                want, got = _outcome(program, x, k), _outcome(compiled, x, k)
                if want != got:
                    failures.append(f"{name} of {dtype} with {k}: {got}, want {want}")
    assert not failures, "\n".join(failures)
