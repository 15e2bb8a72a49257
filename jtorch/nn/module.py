"""Module: a function with parameters, buffers and submodules.

The attribute rules, names and messages are PyTorch's. Whatever a compiled plan may rely on (which tensors
and modules hang where, plain attributes, hooks, the mode) says so to ``jtorch.core.watch`` when it changes;
writing into a tensor in place is no such change.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from jtorch.core import watch
from jtorch.eager.public import Tensor
from jtorch.nn import calling, state
from jtorch.nn.changes import Changeable
from jtorch.nn.global_hooks import CALLS as GLOBAL_HOOKS, registering
from jtorch.nn.hook_methods import HOOKS, Hooked
from jtorch.nn.parameter import Buffer, Parameter

_OF_ALL = ("__dict__", "__class__")


class Module(Changeable, Hooked):
    """Base class of all layers. Subclasses define ``forward``.

    >>> import jtorch
    >>> class Twice(jtorch.nn.Module):
    ...     def forward(self, x):
    ...         return 2 * x
    >>> Twice()(jtorch.tensor([1.0])).tolist()
    [2.0]

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html
    """

    training: bool
    _version: int = 1  # of the layout of its state dict
    dump_patches: bool = False
    _compiled_call_impl: Callable | None = None  # what ``compile`` puts in the way of calls

    def __init__(self) -> None:
        self.__dict__.update(
            training=True,
            _parameters=watch.Dict(),
            _buffers=watch.Dict(),
            _non_persistent_buffers_set=set(),
            _modules=watch.Dict(),
        )
        for name in HOOKS:
            self.__dict__[name] = watch.HookDict()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module computes; subclasses define it."""
        raise NotImplementedError(
            f'Module [{self.__class__.__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooked or GLOBAL_HOOKS:
            return calling.with_hooks(self, args, kwargs)
        return self.forward(*args, **kwargs)

    # -- attributes --------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__
        for place in ("_parameters", "_buffers", "_modules"):
            found = facts.get(place)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{self.__class__.__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        facts = self.__dict__
        if isinstance(value, Buffer):
            self._set_buffer(name, value)
            return
        if isinstance(value, (Parameter, Module)):
            is_parameter = isinstance(value, Parameter)
            if "_modules" not in facts:
                kind = "parameters" if is_parameter else "module"
                raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
            target = self._parameters if is_parameter else self._modules
            if target.get(name) is value:
                return
            self._forget(name, target)
            if isinstance(value, Parameter):
                self.register_parameter(name, value)
            else:
                self._set_module(name, value)
            return
        if self._set_registered(name, value):
            return
        before = facts.get(name, watch.MISSING)
        if watch.journal.get() is not None:
            watch.note_attribute(self, name)
        if name in _OF_ALL:
            self._set_of_all(name, value)
            return
        object.__setattr__(self, name, value)
        if before is not value:
            watch.tell(facts, name, before)

    def _set_of_all(self, name: str, value: Any) -> None:
        """What any attribute may depend on."""
        before = getattr(self, name)
        object.__setattr__(self, name, value)
        watch.tell_all(f"{name} of a {_typename(self)}", lambda: getattr(self, name) is before)

    def _set_buffer(self, name: str, value: Buffer) -> None:
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        if name in self._parameters or name in self._modules:
            self._set_registered(name, value)  # raises: a buffer takes no parameter's or module's place
        self.__dict__.pop(name, None)
        watch.tell(self.__dict__, name)
        self.register_buffer(name, value, value.persistent)

    def _set_registered(self, name: str, value: Any) -> bool:
        """Whether ``name`` is registered here, and so ``value`` took its place there."""
        facts = self.__dict__
        for place, allowed in _REGISTERED:
            held = facts.get(place)
            if held is None or name not in held:
                continue
            if value is not None and not (place == "_buffers" and isinstance(value, Tensor)):
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as {_KIND[place]} '{name}' "
                    f"({allowed} or None expected)"
                )
            if held[name] is not value:
                held[name] = registering(_KIND[place].split()[-1], self, name, value)
                watch.tell(held)
            return True
        return False

    def _forget(self, name: str, keep: dict | None = None) -> None:
        """Drop ``name`` wherever it is registered or set, but in ``keep``."""
        for place in (self.__dict__, self._parameters, self._buffers, self._modules):
            if place is not keep and name in place:
                del place[name]
                watch.tell(place, name)
        self._non_persistent_buffers_set.discard(name)
        watch.tell(self.__dict__, "_non_persistent_buffers_set")

    def __delattr__(self, name: str) -> None:
        for place in (self._parameters, self._buffers, self._modules):
            if name in place:
                del place[name]
                self._non_persistent_buffers_set.discard(name)
                watch.tell(place)
                watch.tell(self.__dict__, "_non_persistent_buffers_set")
                break
        else:
            watch.note_attribute(self, name)
            before = self.__dict__.get(name, watch.MISSING)
            object.__delattr__(self, name)
            watch.tell(self.__dict__, name, before)

    def __dir__(self) -> list[str]:
        registered = [*self._parameters, *self._modules, *self._buffers]
        return sorted({*super().__dir__(), *(k for k in registered if not k[:1].isdigit())})

    # -- registration ------------------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under ``name``; None holds the place of one that is absent."""
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_typename(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and not param.is_leaf:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                f"explicitly. To express '{name}' as a function of another Tensor, compute the value in "
                "the forward() method."
            )
        self._parameters[name] = registering("parameter", self, name, param)
        watch.tell(self._parameters)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; only persistent ones are in the state dict."""
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = registering("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)
        watch.tell(self._buffers)
        watch.tell(self.__dict__, "_non_persistent_buffers_set")

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under ``name``."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._set_module(name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Another name of ``add_module``."""
        self.add_module(name, module)

    def _set_module(self, name: str, module: Module | None) -> None:
        self._modules[name] = registering("module", self, name, module)
        watch.tell(self._modules)

    def _check_name(self, kind: str, name: str, place: dict) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in place:
            raise KeyError(f"attribute '{name}' already exists")

    @property
    def _compiled_part(self) -> Module:
        """The module that runs compiled where this one is to: a part, where what is around it stays eager."""
        return self

    def compile(self, **options: Any) -> None:
        """Later calls of this module are compiled, with its hooks; ``options`` as in ``jtorch.compile``.

        Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.compile
        """
        import jtorch

        compiler: Any = jtorch.compile  # a module that is called
        part = self._compiled_part
        part._call_through(compiler(functools.partial(calling.uncompiled, part), **options))

    def _call_through(self, compiled: Any) -> None:
        """Let ``compiled`` answer the calls of this module."""
        self.__dict__["_compiled_call_impl"] = compiled
        self.__dict__["_hooked"] = True  # the way of calls that are not plain
        watch.tell(self.__dict__)

    # -- state -------------------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """What else than tensors ``state_dict`` keeps; a subclass with any defines this and the next."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. Please file an "
            "issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml to report this "
            "bug."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what ``get_extra_state`` gave."""
        self.get_extra_state()

    def state_dict(
        self,
        *args: Any,
        destination: Any = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> Any:
        """Parameters and persistent buffers by dotted name; they share memory with the module's."""
        if args:
            destination, prefix, keep_vars = state.positional(args, destination, prefix, keep_vars)
        return state.collect(self, destination, prefix, keep_vars)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put this module's own tensors into ``destination``; subclasses may put others."""
        state.save_own(self, destination, prefix, keep_vars)
        if self.__class__.get_extra_state is not Module.get_extra_state:
            destination[prefix + state.EXTRA] = self.get_extra_state()

    def load_state_dict(
        self, state_dict: Mapping[str, Tensor], strict: bool = True, assign: bool = False
    ) -> state.IncompatibleKeys:
        """Copy ``state_dict`` into the parameters and buffers here and below.

        ``assign`` puts the given tensors in their places instead. Raises RuntimeError for shapes that
        differ and, where ``strict``, for keys that are missing or unexpected; nothing is changed then
        (but by modules with loading code or hooks of their own).
        """
        return state.load(self, state_dict, strict, assign)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Fill this module's own tensors from ``state_dict``; subclasses may convert older layouts first."""
        report = state.Report(strict, missing_keys, unexpected_keys, error_msgs)
        for write in state.load_own(self, state_dict, prefix, local_metadata, report):
            write()

    def _upgrade_state_dict(self, state_dict: Any, prefix: str, version: int | None) -> None:
        """Bring what a layer of jtorch saved under an older ``_version`` into today's layout."""

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_compiled_call_impl"}

    def __setstate__(self, facts: dict[str, Any]) -> None:
        self.__dict__.update(facts)
        for name in HOOKS:
            self.__dict__.setdefault(name, watch.HookDict())
        watch.tell(self.__dict__)

    # -- text --------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands between the brackets of ``repr``; subclasses define it."""
        return ""

    def _get_name(self) -> str:
        return self.__class__.__name__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from jtorch.viz.html import module_html

        return module_html(self)

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): {_indent(repr(m))}" for name, m in self._modules.items()]
        lines = extra_lines + child_lines
        text = self._get_name() + "("
        if not lines:
            return text + ")"
        if len(extra_lines) == 1 and not child_lines:
            return text + extra_lines[0] + ")"
        return text + "\n  " + "\n  ".join(lines) + "\n)"


_KIND = {"_parameters": "parameter", "_modules": "child module", "_buffers": "buffer"}
_REGISTERED = (
    ("_parameters", "torch.nn.Parameter"),
    ("_modules", "torch.nn.Module"),
    ("_buffers", "torch.nn.Buffer, torch.Tensor"),
)


def _indent(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *("  " + line for line in rest)])


def _typename(value: Any) -> str:
    cls = type(value)
    module = cls.__module__
    return cls.__qualname__ if module in ("builtins", "__builtin__") else f"{module}.{cls.__qualname__}"
