"""What runs an op once for each example, or a pass for each row, says so when it is recorded."""

from __future__ import annotations

import warnings

import jtorch

PROGRAMS = {
    "vmap": lambda x: jtorch.func.vmap(lambda r: jtorch.histogram(r, jtorch.linspace(0, 2, 3))[0])(x),
    "jacobian": lambda x: jtorch.autograd.functional.jacobian(lambda x: x[:, 0] * 2, x),
}


def _told(program, rows):
    x = jtorch.ones(rows, 2)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        compiled = jtorch.compile(program, mode="interpret")
        found = compiled(x)
        compiled(x)
    assert found.tolist() == program(x).tolist()
    return [(w.filename, str(w.message)) for w in told]


def test_many_rows_are_told_of_once_at_the_users_line():
    for name, program in PROGRAMS.items():
        assert _told(program, 3) == [], name
        ((file, text),) = _told(program, 40)
        assert file == __file__, name
        assert name in text and "40 times, one after the other" in text
        assert _told(program, 40) == [], name


def test_a_batch_is_recorded_as_one_example():
    for program in (
        lambda x: jtorch.func.vmap(lambda r: (r**2).sum())(x),
        lambda x: jtorch.func.jacrev(lambda x: x[:, 0] * 2)(x),
    ):
        assert _told(program, 40) == []


def test_eager_mode_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for program in PROGRAMS.values():
            program(jtorch.ones(40, 2))
