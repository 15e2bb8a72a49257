"""One step of a recurrent layer: RNNCell, LSTMCell, GRUCell.

Source: https://docs.pytorch.org/docs/stable/nn.html#recurrent-layers
"""

from __future__ import annotations

import math
from typing import Any

from jtorch.core import dtypes as dt
from jtorch.eager.public import Tensor, agree, empty, ops, zeros
from jtorch.nn import functional as F, init
from jtorch.nn.module import Module
from jtorch.nn.parameter import Parameter


class RNNCellBase(Module):
    """The parameters of a cell: ``weight_ih``, ``weight_hh`` and, with ``bias``, ``bias_ih``, ``bias_hh``.

    All start uniform within 1/sqrt(hidden_size).

    >>> import jtorch
    >>> [p.shape for p in jtorch.nn.RNNCellBase(3, 5, bias=False, num_chunks=4).parameters()]
    [torch.Size([20, 3]), torch.Size([20, 5])]
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(empty(rows, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            value = Parameter(empty(rows, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        return text if self.bias is True else f"{text}, bias={self.bias}"

    def _batched(self, input: Tensor, states: list[Tensor], name: str = "hidden") -> list[Tensor]:
        """``[input, *states]`` with a batch dim, after PyTorch's checks."""
        kind = type(self).__name__
        if input.ndim not in (1, 2):
            raise ValueError(f"{kind}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        for k, state in enumerate(states):
            if state.ndim not in (1, 2):
                which = name.format(k)
                raise ValueError(f"{kind}: Expected {which} to be 1D or 2D, got {state.ndim}D instead")
        if input.ndim == 1:
            input, *states = (t.unsqueeze(0) for t in (input, *states))
        if input.shape[1] != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {input.shape[1]} expected {self.input_size}"
            )
        for k, state in enumerate(states):
            if state.shape[0] != input.shape[0]:
                raise RuntimeError(
                    f"Input batch size {input.shape[0]} doesn't match hidden{k} batch size {state.shape[0]}"
                )
            if state.shape[1] != self.hidden_size:
                raise RuntimeError(
                    f"hidden{k} has inconsistent hidden_size: got {state.shape[1]}, expected "
                    f"{self.hidden_size}"
                )
            same_dtype(input, state)
        return [input, *states]

    def _zeros(self, input: Tensor) -> Tensor:
        return zeros(input.shape[0], self.hidden_size, dtype=input.dtype, device=input.device)

    def _projected(self, input: Tensor) -> Any:
        """The input's part of the gates, with both biases."""
        return F.linear(input, self.weight_ih, total_bias(self.bias_ih, self.bias_hh))


def total_bias(bias_ih: Any, bias_hh: Any) -> Any:
    """The sum of the two biases, where both are added to the same gates; None where there are none."""
    return None if bias_ih is None else bias_ih + bias_hh


def same_dtype(x: Tensor, y: Tensor) -> None:
    """Raise PyTorch's error unless both have one dtype."""
    if not agree(x, y):
        raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {x.dtype} and {y.dtype}")


def as_state(state: Tensor, *results: Tensor) -> tuple[Tensor, ...]:
    """What gates in the small type of autocast give beside a ``state``: PyTorch adds these in the dtype of
    both; on a device it casts states, too."""
    if state.is_cuda:
        return results
    numpy_dtypes = [(t.dtype.numpy, 1) for t in (state, results[0])]
    wide = dt.of(dt.promote(numpy_dtypes))
    return tuple(t.to(wide) for t in results)


def _one_step(batch: int) -> dict[str, Any]:
    return {"sizes": (batch,), "reverse": False}


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh): (B, input_size), (B, hidden_size) to (B, hidden_size).

    ``nonlinearity`` is "tanh" or "relu". Without a batch dim, too.

    >>> import jtorch
    >>> jtorch.nn.RNNCell(3, 5)(jtorch.zeros(4, 3)).shape
    torch.Size([4, 5])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.RNNCell.html
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        x, *states = self._batched(input, [] if hx is None else [hx])
        h = states[0] if states else self._zeros(x)
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        relu, steps = self.nonlinearity == "relu", _one_step(x.shape[0])
        out = ops.rnn_layer(self._projected(x), self.weight_hh, h, relu=relu, **steps)[1]
        return out if input.ndim == 2 else out.squeeze(0)

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text if self.nonlinearity == "tanh" else f"{text}, nonlinearity={self.nonlinearity}"


class LSTMCell(RNNCellBase):
    """One step of an LSTM: (B, input_size) and ((B, hidden_size), (B, hidden_size)) to (h', c').

    Without a batch dim, too.

    >>> import jtorch
    >>> h, c = jtorch.nn.LSTMCell(3, 5)(jtorch.zeros(4, 3))
    >>> h.shape, c.shape
    (torch.Size([4, 5]), torch.Size([4, 5]))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTMCell.html
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        x, *states = self._batched(input, [] if hx is None else list(hx), "hx[{}]")
        h, c = states or (self._zeros(x), self._zeros(x))
        steps = _one_step(x.shape[0])
        out = ops.lstm_layer(self._projected(x), self.weight_hh, None, h, c, **steps)
        h, c = as_state(c, *out[1:])
        return (h, c) if input.ndim == 2 else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """One step of a GRU: (B, input_size), (B, hidden_size) to (B, hidden_size). Without a batch dim, too.

    >>> import jtorch
    >>> jtorch.nn.GRUCell(3, 5)(jtorch.zeros(4, 3), jtorch.zeros(4, 5)).shape
    torch.Size([4, 5])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.GRUCell.html
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        x, *states = self._batched(input, [] if hx is None else [hx])
        h = states[0] if states else self._zeros(x)
        gates = F.linear(x, self.weight_ih, self.bias_ih)
        (out,) = as_state(
            h, ops.gru_layer(gates, self.weight_hh, self.bias_hh, h, **_one_step(x.shape[0]))[1]
        )
        return out if input.ndim == 2 else out.squeeze(0)
