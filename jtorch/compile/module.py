"""A compiled Module: a Module again, whose call is the compiled one."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from jtorch.nn.calling import uncompiled
from jtorch.nn.module import Module

_OWN = ("_orig_mod", "_compiled")


class OptimizedModule(Module):
    """What ``jtorch.compile(module)`` gives. Its only submodule is ``_orig_mod``, as in PyTorch, so the keys
    of its state dict begin so; attributes are those of the module it was made from, and what compiled
    functions have: ``retraces``, ``explain()``, ``stats()``, ``graph()``.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.compile.html
    """

    def __init__(self, module: Module, compiled: Any) -> None:
        super().__init__()
        self.__dict__.pop("training")
        self.__dict__["_compiled"] = compiled
        self._modules["_orig_mod"] = module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooked:  # its own, around the compiled call, as in PyTorch
            return uncompiled(self, *args, **kwargs)
        return self._compiled(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def __reduce__(self) -> Any:  # a copy, or what is unpickled, records for itself
        return optimized, (self._orig_mod, self._compiled.options)

    @property
    def training(self) -> bool:  # type: ignore[override]
        return self._modules["_orig_mod"].training  # type: ignore[union-attr]

    @training.setter
    def training(self, mode: bool) -> None:
        self._modules["_orig_mod"].training = mode  # type: ignore[union-attr]

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__
        if name == "_orig_mod":
            return facts["_modules"][name]
        try:
            return getattr(facts["_modules"]["_orig_mod"], name)
        except AttributeError:
            return getattr(facts["_compiled"], name)

    def __len__(self) -> int:
        module = self._orig_mod
        if not hasattr(type(module), "__len__"):
            raise TypeError(f"{type(module).__name__} does not support len()")
        return len(module)

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __getitem__(self, key: Any) -> Any:
        return self._orig_mod[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._orig_mod)

    def __contains__(self, value: Any) -> bool:
        return value in self._orig_mod

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "training":
            object.__setattr__(self, name, value)
        else:
            setattr(self._modules["_orig_mod"], name, value)


class CompiledInside:
    """The call of a module that is eager around a compiled part, of which it has the attributes."""

    def __init__(self, module: Module, part: Any) -> None:
        self._module, self._part, self.options = module, part, part.options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._module(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_part"], name)


def optimized(module: Module, options: Any) -> OptimizedModule:
    """``module``, compiled, or around its compiled part."""
    from jtorch.compile.api import CompiledFunction

    part = module._compiled_part
    if part is module:
        return OptimizedModule(module, CompiledFunction(module, options))
    compiled: CompiledFunction = CompiledFunction(functools.partial(uncompiled, part), options)
    part._call_through(compiled)
    return OptimizedModule(module, CompiledInside(module, compiled))
