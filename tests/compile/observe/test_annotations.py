"""What annotations are made of, in code that is recorded: it does not change, what it stands for may."""

import collections.abc
import re
import typing

import jtorch
from tests.compile.observe.observing import t

Number = typing.NewType("Number", int)
Item = typing.TypeVar("Item")


class Stack(typing.Generic[Item]):
    rate = 2.0

    def __init__(self, value):
        self.value = value


FORMS = (
    typing.Any, typing.Union, typing.Optional[int], typing.List[int], list[int], int | None, Number, Item,  # noqa: UP006, UP045
    typing.Annotated[int, [1]], typing.Literal[0], typing.Callable[[], None], typing.Tuple[int, ...],  # noqa: UP006
    collections.abc.Callable[[int], int], Stack[int], typing.ClassVar, jtorch.Tensor | None,
)  # fmt: skip


def test_any_of_them_may_be_handed_around():
    for form in FORMS:
        for f in (
            lambda x, form=form: typing.cast(form, x) * 2,
            lambda x, form=form: x * len([form, form]),
            lambda x, form=form: x * (len(typing.get_args(form)) * 0 + len({"a": form}) + (form in (form,))),
            lambda x, form=form: x * (1 + (form == form)) * len(repr(form)) / len(repr(form)),
        ):
            assert jtorch.compile(f)(t(1, 2)).tolist() == [2.0, 4.0], form


def test_what_an_alias_stands_for_is_read(monkeypatch):
    f = jtorch.compile(lambda x: x * Stack[int].rate + Stack[int](3.0).value)
    assert f(t(1)).tolist() == [5.0]
    monkeypatch.setattr(Stack, "rate", 5.0)
    assert f(t(1)).tolist() == [8.0]
    noted = typing.Annotated[int, {"rate": 2.0}]
    f = jtorch.compile(lambda x: x * noted.__metadata__[0]["rate"])
    assert f(t(1)).tolist() == [2.0]
    noted.__metadata__[0]["rate"] = 7.0
    assert f(t(1)).tolist() == [7.0]


def test_classes_are_asked_for_by_a_union():
    f = jtorch.compile(lambda x: x * 2 if isinstance(x, jtorch.Tensor | None) else x)
    assert f(t(1)).tolist() == [2.0]


def test_what_has_items_and_cannot_be_gone_through_may_be_handed_over():
    match = re.match("a(b)", "ab")
    f = jtorch.compile(lambda x: x * len(match[1] + match.group(0)) * len([*map(type, [match])]))
    assert f(t(1)).tolist() == [3.0]
