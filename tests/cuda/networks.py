"""The fifteen networks of ``benchmarks/models/rows.py``, thin and with few examples: every layer is there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.models import images, sequences, small
from benchmarks.program import Program

NETWORKS: dict[str, Callable[[Any], Program]] = {
    "mlp-64": lambda torch: small.perceptron(torch, 4, 16, 16, 10),
    "mlp-128": lambda torch: small.perceptron(torch, 6, 49, 12, 10),
    "mlp-512": lambda torch: small.perceptron(torch, 8, 49, 24, 24, 10),
    "tanh-rnn": partial(sequences.tanh_rnn, batch=3, length=5, width=8),
    "lstm": partial(sequences.lstm, batch=2, length=4, width=8),
    "lenet-64": partial(images.lenet, batch=2),
    "vae": partial(small.autoencoder, batch=4, sizes=(36, 20, 5)),
    "gpt": partial(sequences.decoder, batch=2, words=13, length=8, layers=2, heads=2, width=8),
    "makemore": partial(sequences.decoder, batch=3, words=11, length=4, layers=4, heads=2, width=8),
    "cnn": partial(images.cnn, batch=2, size=8, width=4),
    "nano-gpt": partial(sequences.decoder, batch=2, words=13, length=6, layers=4, heads=4, width=16),
    "lstm-lm": partial(sequences.language_model, length=4, batch=2, width=8, words=17),
    "mnist-net": partial(images.mnist_net, batch=2, size=12, width=4),
    "mobilenet": partial(images.mobilenet, batch=4, size=16, share=16),
    "resnet": partial(images.resnet, batch=3, size=8, width=4),
}
