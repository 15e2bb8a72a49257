"""What ``tolist()`` gives of a tensor of few elements: numbers that each call knows. And ``extend``."""

import copy
import json
import warnings

import numpy as np
import pytest

import jtorch
from tests.each import each

DTYPES = (jtorch.float32, jtorch.float64, jtorch.float16, jtorch.int64, jtorch.uint8, jtorch.bool)


def appended(x, log):
    log.append(x.tolist())


COMPILED = {  # of x (2, 3) and a list outside
    "all": lambda x, log: x.tolist(),
    "without axes": lambda x, log: x.sum().tolist(),
    "nothing": lambda x, log: (x[:0].tolist(), x[:, :0].tolist()),
    "in containers": lambda x, log: {"rows": [x.tolist()], "first": (x[0].tolist(),)},
    "one list twice": lambda x, log: (lambda row: [row, row, (log.append(row), row)[1]])(x[0].tolist()),
    "a list that is changed": lambda x, log: (lambda row: (row.append(3.0), row)[1])(x[0].tolist()),
    "added up": lambda x, log: sum(x[0].tolist()),
    "computed with": lambda x, log: [x * v + 1 for v in x[0].tolist()],
    "pairs": lambda x, log: [a - b for a, b in zip(x[0].tolist(), x[1].tolist(), strict=True)],
    "a tensor again": lambda x, log: jtorch.tensor(x.tolist()) * 2,
    "an array": lambda x, log: np.array(x.tolist()),
    "how many": lambda x, log: len(x.tolist()),
    "copied": lambda x, log: copy.deepcopy(x[0].tolist()),
    "appended": appended,
    "extended by": lambda x, log: log.extend(x[0].tolist()),
    "extended by others": lambda x, log: log.extend((1, "a", x.sum().item(), [x[0, 0].item(), 2])),
    "extended by tensors": lambda x, log: log.extend([x[0], x[1] * 2]),
    "extended by nothing": lambda x, log: log.extend([]),
}
BRANCHES = {
    "some": lambda x, log: [v for v in x[0].tolist() if v > 2],
    "the largest": lambda x, log: max(x[0].tolist()),
    "sorted": lambda x, log: sorted(x[0].tolist()),
    "read after it": lambda x, log: (log.extend(x[0].tolist()), log[-1]),
    "caught": lambda x, log: log.extend(x[0].tolist()) if x[0].tolist()[0] > 2 else 1 / 0,
}
EAGER = {
    "many": lambda x, log: jtorch.cat([x, x, x]).tolist(),
    "a branch on many": lambda x, log: [v for row in jtorch.cat([x, x]).tolist() for v in row if v > 2],
    "a text": lambda x, log: f"{x[0].tolist()}!",
    "a key": lambda x, log: {1: 2}.get(x.long()[0].tolist()[0], 7),
    "json": lambda x, log: json.dumps(x[0].tolist()),
    "a type": lambda x, log: [type(v).__name__ for v in x[0].tolist()],
    "by itself": lambda x, log: (log.append(1), log.extend(log)),
    "by a generator": lambda x, log: log.extend(v for v in x[0].tolist()),
    "by an object": lambda x, log: log.extend([json]),
}


def plainly(value):
    if isinstance(value, jtorch.Tensor):
        return str(value.dtype), value.detach().tolist()
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.tolist()
    if isinstance(value, (list, tuple)):
        return type(value), *map(plainly, value)
    return {k: plainly(v) for k, v in value.items()} if isinstance(value, dict) else (type(value), value)


def outcome(body, wrap, dtype=jtorch.float32):
    log, told = [], []
    f = wrap(lambda x: body(x, log))
    for n in range(6):
        x = (jtorch.arange(6.0).reshape(2, 3) * (n % 3) + 0.5 * n).to(dtype)
        try:
            told.append(plainly(f(x)))
        except ZeroDivisionError as error:
            told.append(str(error))
        told.append(plainly(log))
    return told, f


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@each("name", COMPILED)
def test_each_call_gives_its_elements(name, dtype):
    expected, _ = outcome(COMPILED[name], lambda f: f, dtype)
    found, f = outcome(COMPILED[name], jtorch.compile, dtype)
    assert found == expected
    assert not f.retraces


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@each("name", BRANCHES)
def test_comparisons_are_branches(name, dtype):
    expected, _ = outcome(BRANCHES[name], lambda f: f, dtype)
    assert outcome(BRANCHES[name], jtorch.compile, dtype)[0] == expected


@each("name", EAGER)
def test_what_runs_eagerly(name):
    expected, _ = outcome(EAGER[name], lambda f: f)
    with pytest.warns(jtorch.errors.EagerWarning):
        assert outcome(EAGER[name], lambda f: jtorch.compile(f, fullgraph=False))[0] == expected


def test_lists_of_many_lengths():
    def f(x):
        return x.tolist(), x * 2

    compiled = jtorch.compile(f, fullgraph=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (3, 4, 5, 40, 3, 0, 1, 6):
            x = jtorch.arange(float(n))
            assert compiled(x)[0] == f(x)[0]
