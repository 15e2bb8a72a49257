"""Recurrent layers over whole sequences: RNN, LSTM, GRU, stacked and in both directions.

Each layer and direction is one matrix product for the input of all steps, and one op for the recurrence.
Source: https://docs.pytorch.org/docs/stable/nn.html#recurrent-layers
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from jtorch.core.number_ranges import is_number
from jtorch.eager.public import Tensor, agree, empty, functions, ops, reads_elements, zeros
from jtorch.nn import functional as F, init
from jtorch.nn.module import Module
from jtorch.nn.parameter import Parameter
from jtorch.nn.recurrent_cells import as_state, same_dtype, total_bias
from jtorch.nn.utils import packing
from jtorch.nn.utils.rnn import PackedSequence
from jtorch.ops.recurrent_turns import EqualSteps

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
_ONLY_LSTM = "proj_size argument is only supported for LSTM, not RNN or GRU"


def _check_options(facts: dict[str, Any]) -> None:
    """Raise PyTorch's errors for arguments of a recurrent layer that it cannot have."""
    dropout: Any = facts["dropout"]
    if not is_number(dropout) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being "
            "zeroed"
        )
    if dropout > 0 and facts["num_layers"] == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
            f"num_layers greater than 1, but got dropout={dropout} and num_layers=1",
            stacklevel=4,
        )
    for name, kind in (("bias", bool), ("batch_first", bool), ("input_size", int), ("hidden_size", int)):
        if not isinstance(facts[name], kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(facts[name]).__name__}")
    for name in ("input_size", "hidden_size", "num_layers"):
        if facts[name] <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if facts["proj_size"] < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if facts["proj_size"] >= facts["hidden_size"]:
        raise ValueError("proj_size has to be smaller than hidden_size")
    if facts["mode"] not in _GATES:
        raise ValueError("Unrecognized RNN mode: " + facts["mode"])


class RNNBase(Module):
    """What RNN, LSTM and GRU share: parameters, checks, layers, directions and packed sequences.

    Parameters of layer k: ``weight_ih_l{k}``, ``weight_hh_l{k}``, ``bias_ih_l{k}``, ``bias_hh_l{k}``, with
    ``proj_size`` ``weight_hr_l{k}``, each with ``_reverse`` behind it for the other direction. They start
    uniform within 1/sqrt(hidden_size).

    >>> import jtorch
    >>> jtorch.nn.RNNBase("LSTM", 3, 5).weight_ih_l0.shape  # the four gates of 5 numbers
    torch.Size([20, 3])
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        facts = {
            "mode": mode, "input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers,
            "bias": bias, "batch_first": batch_first, "dropout": dropout, "bidirectional": bidirectional,
            "proj_size": proj_size,
        }  # fmt: skip
        super().__init__()
        _check_options(facts)
        for name, value in facts.items():
            setattr(self, name, value)
        self.dropout = float(dropout)
        directions = ("", "_reverse") if bidirectional else ("",)
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for direction in directions:
                self._all_weights.append(self._add_weights(layer, direction, device, dtype))
        self.reset_parameters()

    def _add_weights(self, layer: int, direction: str, device: Any, dtype: Any) -> list[str]:
        """Register the parameters of one layer and direction; their names."""
        rows = _GATES[self.mode] * self.hidden_size
        outputs = self.proj_size or self.hidden_size
        inputs = outputs * (2 if self.bidirectional else 1) if layer else self.input_size
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, inputs), "weight_hh": (rows, outputs)}
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        names = []
        for kind, shape in shapes.items():
            names.append(f"{kind}_l{layer}{direction}")
            setattr(self, names[-1], Parameter(empty(*shape, device=device, dtype=dtype)))
        return names

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters, one list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Does nothing: there is no memory layout that another library would ask for."""

    def reset_parameters(self) -> None:
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    # -- checks ------------------------------------------------------------------------------------------

    def check_input(self, input: Tensor, batch_sizes: Any) -> None:
        """Raise ValueError for another dtype than the weights', RuntimeError for dims that do not fit."""
        dtype = self.weight_ih_l0.dtype
        if not agree(input, self.weight_ih_l0):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). "
                f"Convert input: input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        expected = 2 if batch_sizes is not None else 3
        if input.ndim != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.ndim}")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{input.shape[-1]}"
            )

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple, msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Raise RuntimeError for a state of another shape."""
        if tuple(hx.shape) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def _state_widths(self) -> list[int]:
        """The number of columns of each state of a layer."""
        return [self.hidden_size]

    def _check_states(self, input: Tensor, states: list[Tensor], batch: int) -> None:
        """Raise PyTorch's errors for initial states that do not fit."""
        many = len(self._state_widths()) > 1
        for k, (state, width) in enumerate(zip(states, self._state_widths(), strict=True)):
            name = f"hidden[{k}]" if many else "hidden"
            shape = (len(self._all_weights), batch, width)
            self.check_hidden_size(state, shape, f"Expected {name} size {{}}, got {{}}")
            same_dtype(input, state)

    def _check_dims(self, states: list[Tensor], batched: bool) -> None:
        ndim = 3 if batched else 2
        if all(s.ndim == ndim for s in states):
            return
        case = "batched 3-D" if batched else "unbatched 2-D"
        if len(states) > 1:
            dims = ", ".join(f"{s.ndim}-D" for s in states)
            raise RuntimeError(
                f"For {case} input, hx and cx should also be {ndim}-D but got ({dims}) tensors"
            )
        raise RuntimeError(f"For {case} input, hx should also be {ndim}-D but got {states[0].ndim}-D tensor")

    # -- forward -----------------------------------------------------------------------------------------

    def _run(self, input: Any, states: list[Tensor] | None) -> tuple[Any, list[Tensor]]:
        """(output in the form of the input, the last states)"""
        if isinstance(input, PackedSequence):
            return self._run_packed(input, states)
        if input.ndim not in (2, 3):
            words = " tensor" if self.mode.startswith("RNN") else ""
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.ndim}D{words} instead"
            )
        batched, batch_dim = input.ndim == 3, 0 if self.batch_first else 1
        if states is not None:
            self._check_dims(states, batched)
        if not batched:
            input = input.unsqueeze(batch_dim)
            states = None if states is None else [s.unsqueeze(1) for s in states]
        self.check_input(input, None)
        batch = input.shape[batch_dim]
        if states is not None:
            self._check_states(input, states, batch)
        x = input.transpose(0, 1) if self.batch_first else input
        if not x.shape[0]:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        rows = x.reshape(x.shape[0] * batch, x.shape[2])
        out, last = self._run_layers(rows, EqualSteps(batch, x.shape[0]), states)
        out = out.reshape(x.shape[0], batch, out.shape[1])
        out = out.transpose(0, 1) if self.batch_first else out
        return (out, last) if batched else (out.squeeze(batch_dim), [s.squeeze(1) for s in last])

    def _run_packed(
        self, input: PackedSequence, states: list[Tensor] | None
    ) -> tuple[PackedSequence, list[Tensor]]:
        data, batch_sizes, order, back = input
        self.check_input(data, batch_sizes)
        sizes: Any
        if reads_elements():
            sizes = tuple(batch_sizes.tolist())
        else:
            sizes = packing.steps_of(data, batch_sizes, packing.number_of_sequences(batch_sizes, order))
        if states is not None:
            self._check_states(data, states, sizes[0])
            if order is not None:
                states = [s.index_select(1, order) for s in states]
        out, last = self._run_layers(data, sizes, states)
        if back is not None:
            last = [s.index_select(1, back) for s in last]
        return PackedSequence(out, batch_sizes, order, back), last

    def _run_layers(self, x: Any, sizes: Any, states: list[Tensor] | None) -> tuple[Tensor, list[Tensor]]:
        """All layers on rows (sum of ``sizes``, input_size): (rows of the last, the last states)."""
        directions = 2 if self.bidirectional else 1
        last: list[list[Tensor]] = [[] for _ in self._state_widths()]
        first = None if states is not None else self._zero_states(x, sizes[0])
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                x = F.dropout(x, self.dropout)
            outs = []
            for direction in range(directions):
                k = layer * directions + direction
                begin = first if states is None else [s[k] for s in states]
                out, *ends = self._layer(x, self._all_weights[k], begin, sizes, direction == 1)
                outs.append(out)
                for kept, end in zip(last, ends, strict=True):
                    kept.append(end)
            x = outs[0] if directions == 1 else functions.cat(outs, 1)
        return x, [functions.stack(kept) for kept in last]

    def _zero_states(self, x: Tensor, batch: int) -> list[Tensor]:
        return [zeros(batch, width, dtype=x.dtype, device=x.device) for width in self._state_widths()]

    def _weights(self, names: list[str]) -> tuple[Any, Any, Any, Any, Any]:
        """(weight_ih, weight_hh, bias_ih, bias_hh, weight_hr), None for those that are absent."""
        found = {name.partition("_l")[0]: getattr(self, name) for name in names}
        return tuple(  # type: ignore[return-value]
            found.get(kind) for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        )

    def _layer(self, x: Tensor, names: list[str], states: Any, sizes: Any, reverse: bool) -> Any:
        """One layer in one direction: (outputs of all steps, the last states...)."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0,
            "bidirectional": False,
        }  # fmt: skip
        for name, value in usual.items():
            if getattr(self, name) != value:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(RNNBase):
    """Elman's network: (T, B, input_size) and h0 (D * num_layers, B, hidden_size) to (output, h_n).

    D is 2 if ``bidirectional``. The output is (T, B, D * hidden_size); with ``batch_first``, B comes first
    in input and output. An input without batch dim and a PackedSequence will do, too.

    >>> import jtorch
    >>> out, h = jtorch.nn.RNN(3, 5)(jtorch.zeros(7, 4, 3))
    >>> out.shape, h.shape
    (torch.Size([7, 4, 5]), torch.Size([1, 4, 5]))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.RNN.html
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError(_ONLY_LSTM)
        if len(args) > 3:
            nonlinearity, args = args[3], (*args[:3], *args[4:])
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        out, last = self._run(input, None if hx is None else [hx])
        return out, last[0]

    def _layer(self, x: Tensor, names: list[str], states: Any, sizes: Any, reverse: bool) -> Any:
        w_ih, w_hh, b_ih, b_hh, _ = self._weights(names)
        projected = F.linear(x, w_ih, total_bias(b_ih, b_hh))
        relu = self.mode == "RNN_RELU"
        return ops.rnn_layer(projected, w_hh, states[0], sizes=sizes, reverse=reverse, relu=relu)


class LSTM(RNNBase):
    """Long short-term memory: (T, B, input_size) and (h0, c0) to (output, (h_n, c_n)).

    h0 is (D * num_layers, B, proj_size or hidden_size), c0 (D * num_layers, B, hidden_size), D 2 if
    ``bidirectional``. The output is (T, B, D * (proj_size or hidden_size)). Layouts as with ``RNN``.

    >>> import jtorch
    >>> out, (h, c) = jtorch.nn.LSTM(3, 5, num_layers=2, batch_first=True)(jtorch.zeros(4, 7, 3))
    >>> out.shape, h.shape
    (torch.Size([4, 7, 5]), torch.Size([2, 4, 5]))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _state_widths(self) -> list[int]:
        return [self.proj_size or self.hidden_size, self.hidden_size]

    def forward(
        self, input: Any, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        out, (h, c) = self._run(input, None if hx is None else list(hx))
        return out, (h, c)

    def _layer(self, x: Tensor, names: list[str], states: Any, sizes: Any, reverse: bool) -> Any:
        w_ih, w_hh, b_ih, b_hh, w_hr = self._weights(names)
        projected = F.linear(x, w_ih, total_bias(b_ih, b_hh))
        return ops.lstm_layer(projected, w_hh, w_hr, *states, sizes=sizes, reverse=reverse)


class GRU(RNNBase):
    """Gated recurrent units: (T, B, input_size) and h0 to (output, h_n), in ``RNN``'s shapes.

    >>> import jtorch
    >>> out, h = jtorch.nn.GRU(3, 5, bidirectional=True, batch_first=True)(jtorch.zeros(4, 7, 3))
    >>> out.shape, h.shape
    (torch.Size([4, 7, 10]), torch.Size([2, 4, 5]))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.GRU.html
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError(_ONLY_LSTM)
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        out, last = self._run(input, None if hx is None else [hx])
        return out, last[0]

    def _layer(self, x: Tensor, names: list[str], states: Any, sizes: Any, reverse: bool) -> Any:
        w_ih, w_hh, b_ih, b_hh, _ = self._weights(names)
        projected = F.linear(x, w_ih, b_ih)
        out = ops.gru_layer(projected, w_hh, b_hh, states[0], sizes=sizes, reverse=reverse)
        return as_state(states[0], *out)
