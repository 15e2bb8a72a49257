"""Signatures that were taken outside, as decorators keep them: what their defaults hold may change."""

import functools
import inspect
import json
import types

import pytest

import jtorch
from tests.compile.observe.observing import assert_noticed, t


def scaled(x, scale=2.0, *rest, offset=1.0, **more):
    return x * scale + offset


def bound(signature, x):
    arguments = signature.bind(x, 3.0, offset=0.5)
    arguments.apply_defaults()
    return scaled(**{k: v for k, v in arguments.arguments.items() if k not in ("rest", "more")})


USES = {
    "bind": bound,
    "bind_partial": lambda s, x: x * len(s.bind_partial(x).args),
    "changed once bound": lambda s, x: s.bind(x, s.bind(x, 4.0).arguments.pop("scale")).args[1] * x,
    "parameters": lambda s, x: x * sum(p.default for p in s.parameters.values() if p.default is not p.empty),
    "a kind": lambda s, x: x * sum(p.kind is inspect.Parameter.KEYWORD_ONLY for p in s.parameters.values()),
    "a text": lambda s, x: x * len(str(s)),
    "a key": lambda s, x: x * {s: 5.0}[s],
    "another one": lambda s, x: x * 2 if s == inspect.signature(scaled) else x,
    "replaced": lambda s, x: x * len(s.replace(parameters=[*s.parameters.values()][:2]).parameters),
    "a parameter replaced": lambda s, x: x * s.parameters["scale"].replace(default=7.0).default,
}


@pytest.mark.parametrize("name", USES)
def test_a_signature_from_outside(name):
    signature, use = inspect.signature(scaled), USES[name]
    step = jtorch.compile(lambda x: use(signature, x), fullgraph=True)
    for k in range(3):
        assert step(t(k, 1)).tolist() == use(signature, t(k, 1)).tolist()
    assert not len(step.retraces)


def test_arguments_that_a_decorator_binds():
    def by_name(function):
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args, **kwargs):
            arguments = signature.bind(*args, **kwargs)
            arguments.apply_defaults()
            return function(*arguments.args, **arguments.kwargs)

        return call

    step = jtorch.compile(lambda x: by_name_scaled(x, offset=x.sum()), fullgraph=True)
    by_name_scaled = by_name(scaled)
    for k in range(3):
        assert step(t(k, 1)).tolist() == scaled(t(k, 1), offset=t(k, 1).sum()).tolist()


DEFAULTS = {
    "a list": ([2.0], lambda default: default.append(3.0), lambda default: default[-1]),
    "a dict": ({"k": 2.0}, lambda default: default.update(k=5.0), lambda default: default["k"]),
    "an object": (
        types.SimpleNamespace(k=2.0), lambda default: setattr(default, "k", 5.0), lambda default: default.k,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_that_changes(name):
    default, change, value = DEFAULTS[name]
    signature = inspect.signature(lambda x, default=default: x)

    def f(x):
        arguments = signature.bind(x)
        arguments.apply_defaults()
        return arguments.args[0] * value(arguments.args[1])

    assert_noticed(lambda: (f, lambda: change(default)))


def test_a_text_of_a_default_that_changes():
    default = [2.0]
    signature = inspect.signature(lambda x, default=default: x)
    assert_noticed(lambda: (lambda x: x * len(str(signature)), lambda: default.append(3.0)))
    assert_noticed(
        lambda: (lambda x: x * len(signature.parameters["default"].default), lambda: default.clear())
    )


def test_a_signature_that_is_replaced():
    kept = {"signature": inspect.signature(lambda x: x)}

    def change():
        kept["signature"] = inspect.signature(lambda x, y=1: x)

    assert_noticed(lambda: (lambda x: x * len(str(kept["signature"])), change))


def test_defaults_put_into_what_is_bound_outside_run_eagerly():
    arguments = inspect.signature(scaled).bind(2.0)

    def f(x):
        arguments.apply_defaults()
        return x * len(arguments.args)

    with pytest.warns(jtorch.errors.EagerWarning, match="a BoundArguments from outside"):
        assert jtorch.compile(f, fullgraph=False)(t(1)).tolist() == [2.0]


@pytest.mark.parametrize("use", [lambda proxy: str(proxy), lambda proxy: json.dumps([*map(dict, [proxy])])])
def test_a_read_only_mapping_whose_entry_changes(use):
    inner = [1]
    proxy = types.MappingProxyType({"k": inner})
    assert_noticed(lambda: (lambda x: x * len(use(proxy)), lambda: inner.append(2)))
