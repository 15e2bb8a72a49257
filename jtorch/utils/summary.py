"""``jtorch.summary``: the layers of a model, what they give, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jtorch import nn
from jtorch.eager.public import Tensor, flatten, no_grad
from jtorch.nn.module import Module

_WIDTHS = (32, 18, 9, 10, 10)  # columns: layer, output, parameters, FLOPs, bytes
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_PRODUCTS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *_TRANSPOSED)
_RECURRENT = (nn.RNN, nn.LSTM, nn.GRU)


@dataclass(frozen=True)
class Layer:
    """One module: ``output`` is the shape of the first tensor that it gave, None where it was not called.
    ``flops`` is None where nobody counts them."""

    name: str
    kind: str
    depth: int
    output: tuple[int, ...] | None
    parameters: int
    flops: int | None
    nbytes: int


@dataclass(frozen=True)
class Summary:
    """The layers of a model. Printed, they are a table of 80 columns."""

    layers: tuple[Layer, ...]
    parameters: int

    @property
    def flops(self) -> int:
        """Those that are counted."""
        return sum(layer.flops or 0 for layer in self.layers)

    @property
    def activation_bytes(self) -> int:
        """Of what layers without children gave."""
        return sum(layer.nbytes for layer in self.layers)

    def __str__(self) -> str:
        rows = [("layer", "output", "params", "FLOPs", "bytes")]
        for one in self.layers:
            shape = "not called" if one.output is None else str(list(one.output))
            flops = "?" if one.flops is None else _short(one.flops)
            name = f"{'  ' * one.depth}{one.name} {one.kind}".rstrip()
            rows.append((name, shape, _short(one.parameters), flops, _short(one.nbytes)))
        rows.append(("total", "", _short(self.parameters), _short(self.flops), _short(self.activation_bytes)))
        lines = [_line(row) for row in rows]
        lines[1:1] = lines[-1:-1] = ["-" * 80]
        unknown = sorted({one.kind for one in self.layers if one.flops is None})
        if unknown:
            lines.append(f"FLOPs of {', '.join(unknown)} are not counted")
        return "\n".join(line[:80] for line in lines)

    __repr__ = __str__


def summary(model: Module, input: Any) -> Summary:
    """What each layer of ``model`` gives for ``input`` (a tensor, or a tuple of arguments), and what it
    costs: parameters, FLOPs, bytes of activations.

    The model runs once, in evaluation mode and without gradients; modes are put back. FLOPs are two for each
    multiplication of a weight, in linear, convolutional and recurrent layers; products of activations, as
    attention's, and elementwise ops count as none. Raises what the model raises.

    >>> import jtorch
    >>> model = jtorch.nn.Sequential(jtorch.nn.Linear(3, 4), jtorch.nn.Tanh())
    >>> told = jtorch.summary(model, jtorch.ones(2, 3))
    >>> told.parameters, told.flops, told.activation_bytes
    (16, 48, 64)

    Source: https://github.com/TylerYep/torchinfo
    """
    calls: dict[Module, list[tuple[Any, Any]]] = {}
    modes = [(m, m.training) for m in model.modules()]

    def note(module: Module, args: Any, output: Any) -> None:
        given, made = _tensors(args), _tensors(output)
        calls.setdefault(module, []).append((given[0] if given else None, made))

    handles = [m.register_forward_hook(note) for m, _ in modes]
    try:
        model.eval()
        with no_grad():
            model(*(input if isinstance(input, tuple) else (input,)))
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in modes:
            module.training = mode
    layers = [_layer(name, m, calls.get(m, [])) for name, m in model.named_modules()]
    return Summary(tuple(layers), sum(p.numel() for p in model.parameters()))


def _tensors(value: Any) -> list[Tensor]:
    return [t for t in flatten(value)[0] if isinstance(t, Tensor)]


def _layer(name: str, module: Module, calls: list[tuple[Any, list[Tensor]]]) -> Layer:
    own = sum(p.numel() for p in module.parameters(recurse=False))
    made = [t for _, out in calls for t in out]
    is_last = not any(True for _ in module.children())
    return Layer(
        name.rpartition(".")[2], type(module).__name__, name.count(".") + 1 if name else 0,
        tuple(made[0].shape) if made else None, own, _flops(module, calls),
        sum(t.numel() * t.element_size() for t in made) if is_last else 0,
    )  # fmt: skip


def _flops(module: Module, calls: list[tuple[Any, list[Tensor]]]) -> int | None:
    weights = [p for p in module.parameters(recurse=False) if p.ndim > 1]
    if not weights or isinstance(module, nn.Embedding):
        return 0
    if isinstance(module, _PRODUCTS):
        weight, n = weights[0], weights[0].shape[0]
        ends = [x if isinstance(module, _TRANSPOSED) else out[0] for x, out in calls]
        return sum(2 * weight.numel() * t.numel() // n for t in ends)
    if isinstance(module, _RECURRENT) and not module.bidirectional and not module.proj_size:
        return sum(2 * sum(w.numel() for w in weights) * x.numel() // x.shape[-1] for x, _ in calls)
    return None


def _short(n: float) -> str:
    for unit in ("", "k", "M", "G"):
        if n < 10_000:
            return f"{n:.0f}{unit}"
        n /= 1000
    return f"{n:.0f}T"


def _line(row: tuple[str, ...]) -> str:
    first, *rest = row
    width = _WIDTHS[0] - 1
    name = first if len(first) <= width else first[: width - 3] + "..."
    parts = [part.rjust(w) for part, w in zip(rest, _WIDTHS[1:], strict=True)]
    return f"{name.ljust(_WIDTHS[0])}{''.join(parts)}".rstrip()
