"""The rows of ``python -m benchmarks compiled``, smallest step first."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.agree import Tolerance
from benchmarks.models import images, in_jax, sequences, small
from benchmarks.program import Workload
from benchmarks.workloads.training import jax_classifier, jax_training

# Adam divides by a gradient's own size: where that is 0 but for rounding no two libraries agree on a step.
# Two numbers under a max-pool that are equal but for rounding send a whole gradient to one or the other.
TOLERANCE = Tolerance(losses=1e-4, gradients=5e-2, parameters=math.inf, rounding=1e-5)
# In float32 single gradients of 53 layers with batch norm are 20% off in every library, and of ResNet18's 4
# to 14%, where a ReLU's input is 0 but for rounding; in float64 PyTorch's and both modes' agree: see tests.
_DEEP = Tolerance(losses=1e-4, gradients=0.5, parameters=math.inf, rounding=1e-4)


def _row(
    name: str, what: str, torch_like: Any, jax: Any = None, jax_program: Any = jax_classifier,
    tolerance: Tolerance = TOLERANCE,
) -> Workload:  # fmt: skip
    written = None if jax is None else in_jax.like(torch_like, jax, jax_program)
    return Workload(name, what, torch_like, written, tolerance)


MODELS: dict[str, Workload] = {
    w.name: w
    for w in (
        _row("mlp-64", "MLP 64-64-10, b32", small.mlp_64, in_jax.perceptron),
        _row("mlp-128", "MLP 784-128-10, b64", small.mlp_128, in_jax.perceptron),
        _row("mlp-512", "MLP 784-512-512-10, b128", small.mlp_512, in_jax.perceptron),
        _row("tanh-rnn", "tanh RNN 2-64, 32 steps, b32", sequences.tanh_rnn, in_jax.tanh_rnn),
        _row("lstm", "LSTM 32-64, 32 steps, b16", sequences.lstm, in_jax.lstm),
        _row("lenet-64", "LeNet, b64", images.lenet, in_jax.lenet),
        _row("vae", "VAE 784-400-20, b128", small.autoencoder, in_jax.autoencoder, jax_training),
        _row("gpt", "GPT 2x64, b8x64", sequences.gpt, in_jax.decoder(4)),
        _row("makemore", "makemore transformer 4x64, b32x16", sequences.makemore, in_jax.decoder(4)),
        _row("cnn", "CNN + BatchNorm 16-16-32-32, b32 of 32x32", images.cnn),
        _row("nano-gpt", "nanoGPT 4x128, b12x64", sequences.nano_gpt, in_jax.decoder(4)),
        _row("lstm-lm", "LSTM language model 2x200, 35x20", sequences.language_model, in_jax.language_model),
        _row("mnist-net", "mnist Net of PyTorch's examples, b64", images.mnist_net, in_jax.mnist_net),
        _row("mobilenet", "MobileNetV2, b16 of 32x32", images.mobilenet, tolerance=_DEEP),
        _row("resnet", "ResNet18, b16 of 32x32", images.resnet, tolerance=_DEEP),
    )
}

IMAGES = ("lenet-64", "cnn", "mnist-net", "mobilenet", "resnet")
"""The rows whose PyTorch form is tried in its channels_last layout, too."""
