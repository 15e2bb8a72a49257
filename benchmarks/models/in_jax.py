"""The networks of this folder in JAX: the same step, as one jitted function of parameters and Adam's state.

Parameters and data are those of the network in jtorch. Networks with batch norm are not written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.program import Program
from benchmarks.workloads.training import jax_classifier

Parameters = dict[str, Any]


def like(
    torch_like: Callable[[Any], Program],
    function: Callable,
    training: Callable[..., Program] = jax_classifier,
) -> Callable[[], Program]:
    """The program of ``function(parameters, x)``, which gives scores; with ``jax_training`` of one that gives
    the loss of (parameters, x, y)."""

    def program() -> Program:
        import jtorch

        given = torch_like(jtorch)
        values = {name: np.array(value) for name, value in given.parameters().items()}
        data = [tuple(part.numpy() for part in row) for row in given.arguments]
        return training(function, values, data)

    return program


def _dense(p: Parameters, layer: str, x: Any) -> Any:
    x = x @ p[f"{layer}.weight"].T
    return x + p[f"{layer}.bias"] if f"{layer}.bias" in p else x


def _dense_layers(p: Parameters, layers: tuple[int, ...], x: Any) -> Any:
    """With ReLU between them."""
    import jax

    for layer in layers[:-1]:
        x = jax.nn.relu(_dense(p, str(layer), x))
    return _dense(p, str(layers[-1]), x)


def perceptron(p: Parameters, x: Any) -> Any:
    return _dense_layers(p, tuple(sorted({int(name.split(".")[0]) for name in p})), x)


def autoencoder(p: Parameters, x: Any, noise: Any) -> Any:
    """The loss of the variational autoencoder."""
    import jax
    import jax.numpy as jnp

    h = jax.nn.relu(_dense(p, "fc1", x))
    mean, logvar = _dense(p, "mean", h), _dense(p, "spread", h)
    z = mean + noise * jnp.exp(0.5 * logvar)
    image = jax.nn.sigmoid(_dense(p, "fc4", jax.nn.relu(_dense(p, "fc3", z))))
    logs = [jnp.maximum(jnp.log(part), -100.0) for part in (image, 1.0 - image)]
    error = -(x * logs[0] + (1.0 - x) * logs[1]).sum()
    return error - 0.5 * jnp.sum(1 + logvar - mean**2 - jnp.exp(logvar))


def _convolved(p: Parameters, layer: int, x: Any) -> Any:
    import jax

    out = jax.lax.conv_general_dilated(x, p[f"{layer}.weight"], (1, 1), "VALID")
    return jax.nn.relu(out + p[f"{layer}.bias"][:, None, None])


def _pooled(x: Any) -> Any:
    import jax

    return jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def lenet(p: Parameters, x: Any) -> Any:
    x = _pooled(_convolved(p, 3, _pooled(_convolved(p, 0, x))))
    return _dense_layers(p, (7, 9, 11), x.reshape(len(x), -1))


def mnist_net(p: Parameters, x: Any) -> Any:
    x = _pooled(_convolved(p, 2, _convolved(p, 0, x)))
    return _dense_layers(p, (6, 8), x.reshape(len(x), -1))


def tanh_rnn(p: Parameters, x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def cell(h: Any, x_t: Any) -> tuple[Any, None]:
        i2h = x_t @ p["cell.weight_ih"].T + p["cell.bias_ih"]
        return jnp.tanh(i2h + h @ p["cell.weight_hh"].T + p["cell.bias_hh"]), None

    h, _ = jax.lax.scan(cell, jnp.zeros((len(x), 64)), x.swapaxes(0, 1), unroll=x.shape[1])
    return _dense(p, "head", h)


def _lstm(p: Parameters, layer: str, x: Any) -> Any:
    """All outputs of a layer for x of shape (length, batch, features)."""
    import jax
    import jax.numpy as jnp

    wide = x @ p[f"lstm.weight_ih_{layer}"].T + p[f"lstm.bias_ih_{layer}"] + p[f"lstm.bias_hh_{layer}"]
    weight = p[f"lstm.weight_hh_{layer}"].T

    def cell(state: tuple, x_t: Any) -> tuple[tuple, Any]:
        h, c = state
        i, f, g, o = jnp.split(x_t + h @ weight, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((x.shape[1], weight.shape[0]))
    return jax.lax.scan(cell, (zeros, zeros), wide, unroll=x.shape[0])[1]


def lstm(p: Parameters, x: Any) -> Any:
    return _dense(p, "head", _lstm(p, "l0", x.swapaxes(0, 1))[-1])


def language_model(p: Parameters, x: Any) -> Any:
    return _dense(p, "head", _lstm(p, "l1", _lstm(p, "l0", p["words.weight"][x])))


def _normalized(p: Parameters, layer: str, x: Any) -> Any:
    import jax

    centred = x - x.mean(-1, keepdims=True)
    out = centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return out * p[f"{layer}.weight"] + p[f"{layer}.bias"]


def decoder(heads: int) -> Callable[[Parameters, Any], Any]:
    """The network of a GPT."""

    def block(p: Parameters, layer: str, x: Any) -> Any:
        import jax
        import jax.numpy as jnp

        b, t, width = x.shape
        parts = jnp.split(_dense(p, f"{layer}.qkv", _normalized(p, f"{layer}.norm1", x)), 3, axis=2)
        q, k, v = (part.reshape(b, t, heads, width // heads).swapaxes(1, 2) for part in parts)
        scores = q @ k.swapaxes(2, 3) / (width // heads) ** 0.5
        scores = jnp.where(jnp.triu(jnp.ones((t, t), bool), 1), -jnp.inf, scores)
        seen = (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(b, t, width)
        x = x + _dense(p, f"{layer}.out", seen)
        wide = _dense(p, f"{layer}.wide", _normalized(p, f"{layer}.norm2", x))
        return x + _dense(p, f"{layer}.narrow", jax.nn.gelu(wide, approximate=False))

    def network(p: Parameters, x: Any) -> Any:
        h = p["words.weight"][x] + p["places.weight"][: x.shape[1]]
        layers = {name.split(".")[1] for name in p if name.startswith("blocks.")}
        for k in sorted(layers, key=int):
            h = block(p, f"blocks.{k}", h)
        return _dense(p, "head", _normalized(p, "norm", h))

    return network
