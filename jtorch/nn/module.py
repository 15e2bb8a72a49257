"""Module: a function with parameters, buffers and submodules.

The attribute rules, names and messages are PyTorch's. Whatever a compiled plan may rely on (which tensors
and modules hang where, plain attributes, hooks, the mode) says so to ``jtorch.watch`` when it changes;
writing into a tensor in place is no such change.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from jtorch import dtypes as dt
from jtorch import watch
from jtorch.eager.tensor import Tensor
from jtorch.nn import calling, state
from jtorch.nn.parameter import Parameter

_PLAIN = (bool, int, float, str, tuple, type(None))  # compared by value: equal means no change


class Module:
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

    def __init__(self) -> None:
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _modules={},
            _forward_pre_hooks=OrderedDict(),
            _forward_hooks=OrderedDict(),
            _backward_pre_hooks=OrderedDict(),
            _backward_hooks=OrderedDict(),
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module computes; subclasses define it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
        ):
            return calling.with_hooks(self, args, kwargs)
        return self.forward(*args, **kwargs)

    # -- attributes --------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__
        for place in ("_parameters", "_buffers", "_modules"):
            found = facts.get(place)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        facts = self.__dict__
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
        before = facts.get(name, self)
        object.__setattr__(self, name, value)
        if before is not value and not (
            type(before) is type(value) and isinstance(value, _PLAIN) and before == value
        ):
            watch.advance()

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
                held[name] = value
                watch.advance()
            return True
        return False

    def _forget(self, name: str, keep: dict | None = None) -> None:
        """Drop ``name`` wherever it is registered or set, but in ``keep``."""
        for place in (self.__dict__, self._parameters, self._buffers, self._modules):
            if place is not keep:
                place.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        for place in (self._parameters, self._buffers, self._modules):
            if name in place:
                del place[name]
                self._non_persistent_buffers_set.discard(name)
                break
        else:
            object.__delattr__(self, name)
        watch.advance()

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
        self._parameters[name] = param
        watch.advance()

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; only persistent ones are in the state dict."""
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)
        watch.advance()

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under ``name``."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._set_module(name, module)

    register_module = add_module

    def _set_module(self, name: str, module: Module | None) -> None:
        self._modules[name] = module
        watch.advance()

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

    # -- walking the tree --------------------------------------------------------------------------------

    def named_modules(
        self, memo: set | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """``(dotted name, module)`` of this module and all below, each module once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                inner = f"{prefix}.{name}" if prefix else name
                yield from child.named_modules(memo, inner, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """``(name, module)`` of the direct submodules, each module once."""
        seen = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        return (child for _, child in self.named_children())

    def _named_members(
        self, place: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for module_prefix, module in modules:
            for name, value in module.__dict__[place].items():
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield f"{module_prefix}.{name}" if module_prefix else name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """``(dotted name, parameter)``, each parameter once."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """``(dotted name, buffer)``, each buffer once."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path. Raises AttributeError where there is none."""
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path. Raises AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        found = getattr(module, name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path. Raises AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return module._buffers[name]

    # -- changing the tree -------------------------------------------------------------------------------

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call ``fn`` on every submodule and then on this one: typically to initialise weights."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set the training mode here and below: what Dropout goes by."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freeze or unfreeze every parameter."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or overwrite them with zeros."""
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad = p.grad.detach()
                p.grad.zero_()

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """Every parameter, gradient and buffer becomes ``fn`` of itself; parameters stay the same objects."""
        for child in self.children():
            child._apply(fn)
        for param in self._parameters.values():
            if param is None:
                continue
            gradient = param.grad
            param.data = fn(param.data)
            if gradient is not None:
                param.grad = fn(gradient.detach())
        for name, buffer in self._buffers.items():
            if buffer is not None:
                changed = fn(buffer)
                if changed is not buffer:
                    self._buffers[name] = changed
                    watch.advance()
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """``to(device)``, ``to(dtype)`` or ``to(tensor)``: floating-point state only changes its dtype.

        Raises TypeError for an integer dtype, RuntimeError for a device this build lacks.
        """
        dtype, device = state.wanted(args, kwargs)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        return self._apply(
            lambda t: t.to(device=device, dtype=dtype if t.is_floating_point() else None)
        )

    def float(self) -> Self:
        return self.to(dt.float32)

    def double(self) -> Self:
        return self.to(dt.float64)

    def half(self) -> Self:
        return self.to(dt.float16)

    def cpu(self) -> Self:
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        return self.to("cuda" if device is None else device)

    # -- hooks -------------------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> Any:
        """``hook(module, args)`` before ``forward``; may return new args. Returns a removable handle.

        With ``with_kwargs`` it is ``hook(module, args, kwargs)`` and may return ``(args, kwargs)``.
        """
        return calling.add(self._forward_pre_hooks, calling.pre_hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> Any:
        """``hook(module, args, output)`` after ``forward``; may return another output.

        With ``with_kwargs`` it is ``hook(module, args, kwargs, output)``. Returns a removable handle.
        """
        return calling.add(self._forward_hooks, calling.post_hook(hook, with_kwargs), prepend)

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> Any:
        """``hook(module, grad_output)`` before the module's gradients; may return a new grad_output."""
        return calling.add(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> Any:
        """``hook(module, grad_input, grad_output)`` once the inputs' gradients are known.

        It may return a tuple that takes the place of ``grad_input``. Returns a removable handle.
        """
        return calling.add(self._backward_hooks, hook, prepend)

    # -- state -------------------------------------------------------------------------------------------

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> OrderedDict[str, Tensor]:
        """Parameters and persistent buffers by dotted name; they share memory with the module's."""
        return state.collect(self, prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Tensor], strict: bool = True, assign: bool = False
    ) -> state.IncompatibleKeys:
        """Copy ``state_dict`` into the parameters and buffers here and below.

        ``assign`` puts the given tensors in their places instead. Raises RuntimeError for shapes that
        differ and, where ``strict``, for keys that are missing or unexpected; nothing is changed then.
        """
        return state.load(self, state_dict, strict, assign)

    # -- text --------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands between the brackets of ``repr``; subclasses define it."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

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
    return (
        cls.__qualname__
        if module in ("builtins", "__builtin__")
        else f"{module}.{cls.__qualname__}"
    )
