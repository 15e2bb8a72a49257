"""Modules that hold modules: Sequential, ModuleList, ModuleDict.

Source: https://docs.pytorch.org/docs/stable/nn.html#containers
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from jtorch.core import watch
from jtorch.nn.module import Module, _indent


def _position(index: Any, n: int) -> int:
    """``index`` counted from the front. Raises IndexError out of range."""
    k = operator.index(index)
    if not -n <= k < n:
        raise IndexError(f"index {k} is out of range")
    return k % n if n else k


class _Indexed(Module):
    """Submodules named "0", "1", ... in order, or as they were given."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def _names(self) -> list[str]:
        return list(self._modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._part(list(self._modules.items())[index])
        return self._modules[self._names()[_position(index, len(self))]]

    def _part(self, items: list[tuple[str, Module]]) -> Module:
        raise NotImplementedError

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._names()[_position(index, len(self))], module)

    def __delitem__(self, index: Any) -> None:
        names = self._names()
        gone = names[index] if isinstance(index, slice) else [names[_position(index, len(names))]]
        self._renumber([module for name, module in self._modules.items() if name not in gone])

    def _renumber(self, modules: list[Module]) -> None:
        fresh = {str(k): module for k, module in enumerate(modules)}
        self._modules.clear()
        self._modules.update(fresh)
        watch.tell(self._modules)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end. Raises TypeError for what can't be walked over."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{type(self).__name__}.extend should be called with an iterable, but got "
                f"{type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: Any) -> Module:
        """Remove and return the module at ``key``."""
        module = self[key]
        del self[key]
        return module

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before position ``index``; those after it move up."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self


class Sequential(_Indexed):
    """Modules called one after the other, each on the result of the one before.

    >>> import jtorch
    >>> model = jtorch.nn.Sequential(jtorch.nn.Linear(3, 2), jtorch.nn.ReLU())
    >>> model(jtorch.ones(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named: Iterable[tuple[str, Any]] = args[0].items()
        else:
            named = ((str(k), module) for k, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    def _part(self, items: list[tuple[str, Module]]) -> Module:
        return type(self)(OrderedDict(items))

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before position ``index``. Raises IndexError out of range."""
        if isinstance(module, Module) and not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        return super().insert(index, module)

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )
        return self.extend(other)

    def _times(self, other: Any) -> int:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return other

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*(list(self) * self._times(other)))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        return self.extend(list(self) * (self._times(other) - 1))


class ModuleList(_Indexed):
    """A list of modules.

    >>> import jtorch
    >>> layers = jtorch.nn.ModuleList([jtorch.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _part(self, items: list[tuple[str, Module]]) -> Module:
        return type(self)(module for _, module in items)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, other: Iterable[Module]) -> Self:
        return self.extend(other)

    def __repr__(self) -> str:
        """Runs of equal modules as one line: ``(0-2): 3 x Linear(...)``."""
        texts = [repr(module) for module in self]
        if not texts:
            return self._get_name() + "()"
        runs: list[tuple[int, int, str]] = []
        for k, text in enumerate(texts):
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], k, text)
            else:
                runs.append((k, k, text))
        lines = [
            f"({a}): {_indent(text)}" if a == b else f"({a}-{b}): {b - a + 1} x {_indent(text)}"
            for a, b, text in runs
        ]
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """Modules by name.

    >>> import jtorch
    >>> layers = jtorch.nn.ModuleDict({"conv": jtorch.nn.Conv2d(1, 2, 3), "act": jtorch.nn.ReLU()})
    >>> layers["act"](jtorch.tensor([-1.0, 1.0])), list(layers)
    (tensor([0., 1.]), ['conv', 'act'])
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]
        watch.tell(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def keys(self) -> Iterable[str]:
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Module]]:
        return self._modules.items()

    def values(self) -> Iterable[Module]:
        return self._modules.values()

    def clear(self) -> None:
        self._modules.clear()
        watch.tell(self._modules)

    def pop(self, key: str) -> Module:
        """Remove and return the module called ``key``."""
        module = self[key]
        del self[key]
        return module

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add modules, in the place of those of the same name."""
        pairs = modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules
        for name, module in pairs:
            self[name] = module
