"""Samples: recurrent layers, with sequences of one length and of several."""

from __future__ import annotations

from tests.ops.sampling import Sample, entry

SIZES = ((2, 2, 2), (3, 2, 1, 1), (2,))


def _small(draw, *shape):
    return draw.floats(*shape, low=-0.8, high=0.8)


def _cases():
    return [(sizes, reverse) for sizes in SIZES for reverse in (False, True)][:5]


@entry("rnn_layer")
def _(draw):
    found = []
    for sizes, reverse in _cases():
        arrays = _small(draw, sum(sizes), 2), _small(draw, 2, 2), _small(draw, sizes[0], 2)
        statics = {"sizes": sizes, "reverse": reverse}
        found.append(Sample(arrays, statics | {"relu": False}))
    positive = draw.floats(6, 2, low=0.2), draw.floats(2, 2, low=0.1), draw.floats(2, 2, low=0.1)
    return [*found, Sample(positive, {"sizes": (2, 2, 2), "reverse": False, "relu": True})]


@entry("lstm_layer")
def _(draw):
    found = []
    for k, (sizes, reverse) in enumerate(_cases()):
        outputs = 1 if k % 2 else 2
        arrays = (
            _small(draw, sum(sizes), 8), _small(draw, 8, outputs),
            _small(draw, outputs, 2) if outputs == 1 else None,
            _small(draw, sizes[0], outputs), _small(draw, sizes[0], 2),
        )  # fmt: skip
        found.append(Sample(arrays, {"sizes": sizes, "reverse": reverse}))
    return found


@entry("gru_layer")
def _(draw):
    found = []
    for k, (sizes, reverse) in enumerate(_cases()):
        arrays = (
            _small(draw, sum(sizes), 6), _small(draw, 6, 2), None if k % 2 else _small(draw, 6),
            _small(draw, sizes[0], 2),
        )  # fmt: skip
        found.append(Sample(arrays, {"sizes": sizes, "reverse": reverse}))
    return found
