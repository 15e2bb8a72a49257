"""The data of all workloads: scikit-learn's handwritten digits, which ship inside the package.

1,797 images of 8x8 pixels, so nothing is downloaded.
Source: https://scikit-learn.org/stable/modules/generated/sklearn.datasets.load_digits.html
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import numpy as np

BATCHES = 8  # distinct batches that a measurement goes through in turn


@functools.cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """(images float32 (1797, 8, 8) in 0..1, labels int64 (1797,))

    Reads the file of ``sklearn.datasets.load_digits`` without importing scikit-learn: every process
    of a run needs the data, and the import takes a second.
    """
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            'the benchmark takes its data from scikit-learn: python -m pip install -e ".[bench]"'
        )
    file = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    return table[:, :-1].reshape(-1, 8, 8) / 16, table[:, -1].astype(np.int64)


def batches(size: int, shape: tuple[int, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    """BATCHES batches of (images of ``shape``, labels)."""
    images, labels = digits()
    rows = [np.arange(k * size, (k + 1) * size) for k in range(BATCHES)]
    return [(images[r].reshape(size, *shape), labels[r]) for r in rows]


def enlarged(size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Batches of images (size, 1, 28, 28), as MNIST's: each pixel thrice, two black around."""
    found = []
    for images, labels in batches(size, (8, 8)):
        large = np.kron(images, np.ones((1, 3, 3), np.float32))
        found.append((np.pad(large, ((0, 0), (2, 2), (2, 2)))[:, None], labels))
    return found


def uniform(seed: int, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Initial parameters, the same for every library: uniform within 1/sqrt(inputs of a neuron).

    A name that ends in "bias" takes the bound of the weight before it.
    """
    generator = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    bound = 1.0
    for name, shape in shapes.items():
        if not name.endswith("bias"):
            bound = float(np.prod(shape[1:])) ** -0.5
        found[name] = generator.uniform(-bound, bound, shape).astype(np.float32)
    return found


def load(torch: object, model: object, values: dict[str, np.ndarray]) -> dict[str, object]:
    """Copy initial values into a model's parameters; gives the parameters by name."""
    named = dict(model.named_parameters())  # type: ignore[attr-defined]
    if sorted(named) != sorted(values):
        raise ValueError(f"the model has parameters {sorted(named)}, values are for {sorted(values)}")
    with torch.no_grad():  # type: ignore[attr-defined]
        for name, parameter in named.items():
            parameter.copy_(torch.from_numpy(values[name]))  # type: ignore[attr-defined]
    return named
