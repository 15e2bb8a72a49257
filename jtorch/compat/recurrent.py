"""Recurrent layers as functions of their weights: ``torch.lstm(input, hx, params, ...)``.

``params`` are the weights of all layers and directions behind each other, in the order of
``nn.LSTM(...)._flat_weights``. The input is (T, B, inputs), or (B, T, inputs) with ``batch_first``; packed
sequences come as ``lstm(data, batch_sizes, hx, params, ...)``, without that flag.
Source: https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/native_functions.yaml
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jtorch.eager.tensor import Tensor
from jtorch.nn.recurrent_cells import same_dtype
from jtorch.nn.rnn import GRU, LSTM, RNN, RNNBase
from jtorch.nn.utils.rnn import PackedSequence

_OPTIONS = ("has_biases", "num_layers", "dropout", "train", "bidirectional")
_OF_SEQUENCES = ("input", "hx", "params", *_OPTIONS, "batch_first")
_OF_PACKED = ("data", "batch_sizes", "hx", "params", *_OPTIONS)


class _Given:
    """Stands in the place of a layer: its weights are those that were given, and nobody's parameters."""

    _run: Any = RNNBase._run
    _run_packed: Any = RNNBase._run_packed
    _run_layers: Any = RNNBase._run_layers

    def __init__(self, kind: type[RNNBase], mode: str, widths: list[int], given: dict[str, Any]) -> None:
        self.kind, self.mode, self.widths = kind, mode, widths
        self.has_biases, self.num_layers = bool(given["has_biases"]), given["num_layers"]
        self.dropout, self.training = given["dropout"], given["train"]
        self.bidirectional, self.batch_first = bool(given["bidirectional"]), given.get("batch_first", False)
        self.projected = len(widths) == 2 and widths[0] != widths[1]
        params, each = given["params"], 2 + 2 * self.has_biases + self.projected
        if len(params) % each:
            raise RuntimeError("got an incorrect number of RNN parameters")
        self._all_weights = [params[k : k + each] for k in range(0, len(params), each)]
        if len(self._all_weights) != self.num_layers * (1 + self.bidirectional):
            raise RuntimeError("Expected more weights in stacked_rnn")

    def check_input(self, input: Tensor, batch_sizes: Any) -> None:
        same_dtype(input, self._all_weights[0][0])

    def _check_dims(self, states: list[Tensor], batched: bool) -> None:
        if not batched or any(s.ndim != 3 for s in states):
            raise RuntimeError("Expected more hidden states in stacked_rnn: input and hx have 3 dims")

    def _check_states(self, input: Tensor, states: list[Tensor], batch: int) -> None:
        for state, width in zip(states, self.widths, strict=True):
            if state.shape[0] != len(self._all_weights):
                raise RuntimeError("Expected more hidden states in stacked_rnn")
            if tuple(state.shape[1:]) != (batch, width):
                expected = [len(self._all_weights), batch, width]
                raise RuntimeError(f"Expected hidden size {expected}, got {list(state.shape)}")
            same_dtype(input, state)

    def _state_widths(self) -> list[int]:
        return self.widths

    def _layer(self, *args: Any) -> Any:
        return self.kind._layer(self, *args)  # type: ignore[arg-type]

    def _weights(self, weights: Sequence[Tensor]) -> tuple:
        """(weight_ih, weight_hh, bias_ih, bias_hh, weight_hr), None for those that are absent."""
        biases = weights[2:4] if self.has_biases else (None, None)
        return (*weights[:2], *biases, weights[-1] if self.projected else None)


def _run(name: str, kind: type[RNNBase], mode: str, args: tuple, options: dict[str, Any]) -> Any:
    """(output, last states...) of the function ``name``, whose arguments are as PyTorch's."""
    packed = "batch_sizes" in options or (len(args) > 1 and isinstance(args[1], Tensor) and args[1].ndim == 1)
    names = _OF_PACKED if packed else _OF_SEQUENCES
    given = dict(zip(names, args, strict=False)) | options
    if len(args) > len(names) or set(given) != set(names) or set(options) & set(names[: len(args)]):
        raise TypeError(f"{name}() takes ({', '.join(_OF_SEQUENCES)}) or ({', '.join(_OF_PACKED)})")
    states = list(given["hx"]) if kind is LSTM else [given["hx"]]
    if kind is LSTM and len(states) != 2:
        raise RuntimeError("lstm expects two hidden states")
    layers = _Given(kind, mode, [s.shape[-1] for s in states], given)
    if packed:
        layers._check_dims(states, True)
        sequences = PackedSequence(given["data"], given["batch_sizes"], None, None)
        out, last = layers._run(sequences, states)
        return (out.data, *last)
    out, last = layers._run(given["input"], states)
    return (out, *last)


def lstm(*args: Any, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
    """(output, h, c): ``nn.LSTM`` as a function of ``input, hx, params, has_biases, num_layers, dropout,
    train, bidirectional, batch_first``, or of a packed sequence. ``hx`` is (h, c), before the first step."""
    return _run("lstm", LSTM, "LSTM", args, options)


def gru(*args: Any, **options: Any) -> tuple[Tensor, Tensor]:
    """(output, h): ``nn.GRU`` as a function of ``input, hx, params, has_biases, num_layers, dropout, train,
    bidirectional, batch_first``, or of a packed sequence."""
    return _run("gru", GRU, "GRU", args, options)


def rnn_tanh(*args: Any, **options: Any) -> tuple[Tensor, Tensor]:
    """(output, h): ``nn.RNN`` as a function of ``gru``'s arguments."""
    return _run("rnn_tanh", RNN, "RNN_TANH", args, options)


def rnn_relu(*args: Any, **options: Any) -> tuple[Tensor, Tensor]:
    """(output, h): ``nn.RNN(nonlinearity="relu")`` as a function of ``gru``'s arguments."""
    return _run("rnn_relu", RNN, "RNN_RELU", args, options)
