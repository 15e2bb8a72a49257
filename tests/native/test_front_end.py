"""Kernels by the short way compute what Numba's compute, bit by bit, and what Python says."""

from __future__ import annotations

import ctypes
import logging
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import jtorch
from jtorch.native import build, front_end_values, loader, numba_front_end
from tests.native.building import build as built

I64 = np.iinfo(np.int64)
INTEGERS = np.array(
    [0, 1, -1, 2, -2, 3, -3, 7, -7, 64, -64, I64.max, I64.min, I64.min + 1, 10**12, -(10**12)]
)
FLOATS = np.array([0.0, -0.0, 1.0, -1.5, 2.5, np.inf, -np.inf, np.nan, 5e-324, 1e300, 3.0, -7.25])

# name -> (kinds of the arrays, the statements that turn x[i] and y[i] into out[i], the kind of out)
CASES = {
    "sums of integers": ("i64", "i64", "out[i] = x[i] + y[i] * 3 - 1"),
    "narrow integers are computed in 64 bits": ("i8", "i64", "out[i] = x[i] * x[i] * x[i] + (x[i] + x[i])"),
    "unsigned beside signed": ("u8", "i64", "out[i] = x[i] - 200 + y[i]"),
    "a narrow result is cut": ("i64", "i8", "out[i] = x[i] + 100"),
    "an unsigned result is cut": ("i64", "u16", "out[i] = x[i] - 1"),
    "rounded down": ("i64", "i64", "out[i] = x[i] // y[i]"),
    "the rest of it": ("i64", "i64", "out[i] = x[i] % y[i]"),
    "by literals": ("i64", "i64", "out[i] = (x[i] // 4) * 10 + x[i] % 3"),
    "bits": ("i64", "i64", "out[i] = (x[i] & y[i]) | (x[i] ^ 5)"),
    "shifts": ("i64", "i64", "out[i] = (x[i] >> (i & 31)) + (y[i] << 2)"),
    "shifts without sign": ("u64", "u64", "out[i] = x[i] >> y[0]"),
    "inverted": ("i64", "i64", "out[i] = ~x[i]"),
    "negative integers": ("i32", "i64", "out[i] = -x[i]"),
    "minimum and maximum": ("i64", "i64", "out[i] = min(x[i], 5) + max(x[i], y[i])"),
    "absolute integers": ("i64", "i64", "out[i] = abs(x[i])"),
    "float arithmetic": ("f64", "f64", "out[i] = x[i] * y[i] - x[i] / y[i] + y[i]"),
    "float32 arithmetic": ("f32", "f32", "out[i] = (x[i] - y[i]) / x[i] * float32(0.1)"),
    "negative floats": ("f64", "f64", "out[i] = -x[i]"),
    "absolute floats": ("f32", "f32", "out[i] = abs(x[i])"),
    "widened and rounded": ("f64", "f32", "out[i] = float32(x[i]) * float32(3.0)"),
    "stored as another kind": ("f64", "f32", "out[i] = x[i] * y[i]"),
    "integers as floats": ("i64", "f64", "out[i] = float64(x[i]) / 3.0"),
    "unsigned as floats": ("u64", "f64", "out[i] = float64(x[i])"),
    "float to bool": ("f64", "bool", "out[i] = bool(x[i])"),
    "less": ("f64", "bool", "out[i] = x[i] < y[i]"),
    "at most, NaN too": ("f64", "bool", "out[i] = x[i] <= y[i]"),
    "equal": ("f32", "bool", "out[i] = x[i] == y[i]"),
    "unequal": ("f32", "bool", "out[i] = x[i] != y[i]"),
    "compared integers": ("i32", "bool", "out[i] = (x[i] > y[i]) == (x[i] >= 2)"),
    "compared across widths": ("u8", "bool", "out[i] = x[i] >= y[0] - 3"),
    "not": ("f64", "bool", "out[i] = not x[i] < y[i]"),
    "conditions": ("f64", "bool", "out[i] = (x[i] < y[i] and y[i] < 2.0) or x[i] == 3.0"),
    "masks": ("f64", "bool", "out[i] = (x[i] < y[i]) ^ (y[i] > 0.0) | (x[i] > 2.0)"),
    "bytes as conditions": ("bool", "f64", "out[i] = 2.5 if x[i] != 0 else -1.0"),
    "chosen": ("f64", "f64", "out[i] = x[i] if x[i] > y[i] else y[i] * 2.0"),
    "only what is chosen is read": ("f64", "f64", "out[i] = x[i - 3] if i >= 3 and x[i - 3] > 0.0 else 9.0"),
    "a way that is not taken": ("i64", "i64", "out[i] = 1 if x[i] == 0 or x[i] % x[i] == 0 else 2"),
    "an integer as a condition": ("i64", "i64", "out[i] = 5 if x[i] else 6"),
    "names for constants": ("f32", "f32", "out[i] = x[i] * HALF + float32(inf) * SMALL"),
    "constants of NumPy": ("f32", "f32", "out[i] = x[i] if x[i] > np.float32(0.5) else np.float32(-0.0)"),
    "if, elif, else": (
        "i64", "i64", """
if x[i] < 0:
    t = 1
elif x[i] == 0:
    t = 2
else:
    t = x[i]
out[i] = t
"""),
    "while and break": (
        "i64", "i64", """
t = 0
while True:
    t += 3
    if t > y[0] + i:
        break
    if t > 100:
        break
out[i] = t
"""),
    "continue": (
        "i64", "i64", """
t = 0
for j in range(2, i):
    if j % 3 == 1:
        continue
    t = t + j
out[i] = t
"""),
    "steps of a range": (
        "i64", "i64", """
t = 0
for j in range(i, -1, -2):
    t = t * 3 + j
for j in range(1, i, 3):
    t = t * 5 + j
out[i] = t
"""),
    "a loop's variable that is assigned": (
        "i64", "i64", """
t = 0
for j in range(i):
    j = j * 2
    t += j
out[i] = t
"""),
    "several at a time": (
        "i64", "i64", """
a, b = 1, x[i] // 2
a, b = b, a
out[i] = a - 3 * b
"""),
    "results in pairs": (
        "f64", "f64", """
a, b = float64(0.0), float64(0.0)
a, b = add_with_rest(a, b, x[i])
a, b = add_with_rest(a, b, y[i])
out[i] = with_rest(a, b)
"""),
    "vector math": ("f64", "f64", "out[i] = sin_f64(x[i]) + sqrt(abs(y[i]))"),
    "memory on the stack": (
        "f64", "f64", """
for j in range(4):
    room[j] = x[i] + float64(j)
out[i] = room[3] * room[0]
"""),
    "wider on the second assignment": (
        "i32", "i64", """
t = 0
t = x[i]
out[i] = t * 2
"""),
}  # fmt: skip

HEAD = """import numpy as np
from numpy import float32, float64, inf
from jtorch.native.exact import add_with_rest, with_rest
from jtorch.native.intrinsics import sqrt, stack_f64
from jtorch.native.vecmath import sin_f64

HALF, SMALL = np.float32(0.5), np.float32(1e-30)
ARGUMENTS = ("{kind}*", "{kind}*", "{result}*", "i64")


def kernel(x, y, out, n):
    room = stack_f64(4)
    for i in range(n):
"""
DTYPES = {k: np.dtype(d) for d, k in front_end_values._CASTS.items() if k != "b1"} | {"bool": np.dtype(bool)}


def source_of(kind: str, result: str, text: str) -> str:
    lines = [f"        {line}" for line in text.strip().splitlines()]
    return HEAD.format(kind=kind, result=result) + "\n".join(lines) + "\n"


def run(code: bytes, symbol: str, arrays: list[np.ndarray], *words: int) -> int:
    block = np.array([*(a.ctypes.data for a in arrays), *words], np.int64)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(loader.load(code, symbol))
    return int(function(block.ctypes.data))


def numba_text(source: str, entry: str) -> str:
    symbol = build.symbol_name(source, entry)
    return numba_front_end.kernel_text(*build._load_entry(source, entry, symbol, {}), symbol)


def given(kind: str) -> list[np.ndarray]:
    values = FLOATS if kind[0] == "f" else INTEGERS
    pairs = [np.array(pair).ravel() for pair in np.meshgrid(values, values)]
    with np.errstate(all="ignore"):
        return [p.astype(DTYPES[kind]) for p in pairs]


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_numba(name):
    kind, result, text = CASES[name]
    source, (x, y) = source_of(kind, result, text), given(kind)
    assert build._written_here(source, "kernel", "s", *build._load_entry(source, "kernel", "s", {}))
    found, expected = np.zeros(x.size, DTYPES[result]), np.zeros(x.size, DTYPES[result])
    kernel = built(source, "kernel")
    assert run(kernel.code, kernel.symbol, [x, y, found], x.size) == 0
    assert run(loader.compile_ir(numba_text(source, "kernel")), kernel.symbol, [x, y, expected], x.size) == 0
    if name == "rounded down":  # as NumPy wraps it; Numba gives 0
        expected[(x == I64.min) & (y == -1)] = I64.min
    for k in range(x.size):
        assert found[k].tobytes() == expected[k].tobytes(), (x[k], y[k], found[k], expected[k])


def test_python_agrees_on_division():
    source, (x, y) = source_of("i64", "i64", "out[i] = x[i] // y[i] * 1000 + x[i] % y[i]"), given("i64")
    small = (np.abs(x) < 10**13) & (np.abs(y) < 10**13) & (x != I64.min) & (y != I64.min) & (y != 0)
    x, y = x[small], y[small]
    out, kernel = np.zeros_like(x), built(source, "kernel")
    run(kernel.code, kernel.symbol, [x, y, out], x.size)
    for a, b, found in zip(x.tolist(), y.tolist(), out.tolist(), strict=True):
        wide = a // b * 1000 + a % b
        assert found == (wide + 2**63) % 2**64 - 2**63, (a, b)


UNWRITTEN = {
    "two kinds of floats": ("f32", "f64", "out[i] = x[i] * 2.0", "mixes|of f32 and f64"),
    "a float and an integer": ("f64", "f64", "out[i] = x[i] * i", "of f64 and i64"),
    "a quotient of integers": ("i64", "f64", "out[i] = x[i] / y[i]", "of i64"),
    "chained comparisons": ("i64", "bool", "out[i] = 0 < x[i] < 5", "0 < x"),
    "a power": ("i64", "i64", "out[i] = (x[i] & 3) ** 2", "of i64"),
    "a name of two kinds": ("f64", "f64", "t = 1\nt = x[i]\nout[i] = t", "t is i64 and f64"),
}


@pytest.mark.parametrize("name", UNWRITTEN)
def test_what_is_not_written_here_goes_by_way_of_numba(name, caplog):
    kind, result, text, reason = UNWRITTEN[name]
    source, (x, y) = source_of(kind, result, text), given(kind)
    caplog.set_level(logging.INFO, "jtorch.cache")
    kernel = built(source, "kernel")
    (record,) = caplog.records
    assert re.search(reason, record.getMessage())
    out = np.zeros(x.size, DTYPES[result])
    assert run(kernel.code, kernel.symbol, [x, y, out], x.size) == 0


def test_scalars_of_every_kind_and_a_status():
    source = (
        'ARGUMENTS = ("f32", "bool", "u8", "i64", "f64*")\n\n'
        "def kernel(a, b, c, d, out):\n    from_here = c + d\n    if b:\n        out[0] = a\n"
        "    if from_here > 300:\n        return 7\n    return from_here\n"
    )
    kernel, out = built(source, "kernel"), np.zeros(1)
    tenth = int(np.float64(0.1).view(np.int64))
    assert run(kernel.code, kernel.symbol, [], tenth, 1, 250, 3, out.ctypes.data) == 253
    assert out[0] == np.float32(0.1)
    assert run(kernel.code, kernel.symbol, [], tenth, 0, 250, 60, out.ctypes.data) == 7


def test_loops_become_vectors_and_memory_is_told_apart():
    text = built(source_of("f32", "f32", "out[i] = x[i] * y[i]"), "kernel").optimised()
    assert "x float>" in text and "vector.memcheck" not in text


CHAIN = """
from jtorch.native.vecmath import exp_f32, sin_f32

ARGUMENTS = ("i64", "i64", "f32*", "f32*")

def chain(first, last, x, y):
    total = x[0]
    for i in range(first, last):
        t = sin_f32(x[i])
        y[i] = exp_f32(t)
"""


@pytest.mark.parametrize(
    ("old", "new", "together", "masked"),
    [
        ("", "", 1, 0),
        ("exp_f32(t)", "t", 0, 0),  # one call
        ("y[i] = exp_f32(t)", "total = total + exp_f32(t)", 0, 0),  # a sum
        ("    for i", "    for k in range(2):\n     for i", 1, 1),  # rows, and what is left of one
        ("range(first, last)", "range(first, last, 2)", 0, 0),
    ],
    ids=["a chain", "one call", "a sum", "rows", "every second"],
)
def test_turns_of_long_chains_go_side_by_side(old, new, together, masked):
    text = build.llvm_text(CHAIN.replace(old, new, 1), "chain")
    assert text.count("llvm.loop.interleave.count") == together
    assert text.count("llvm.loop.vectorize.predicate.enable") == masked


ROWS = """
from jtorch.native.vecmath import exp_f32, sin_f32

ARGUMENTS = ("i64", "i64", "i64", "f32*", "f32*", "i64")

def rows(count, first, last, x, y, c):
    for k in range(count):
        for i in range(first, last):
            t = sin_f32(x[k * c + i])
            y[k * c + i] = exp_f32(t)
"""


SPANS = ((0, 0), (9, 2), (0, 1), (3, 66), (1, 65), *((2, n) for n in range(2, 300, 7)))


@pytest.mark.parametrize("calls", [2, 1])
def test_rows_of_any_length_are_what_one_long_loop_gives(calls):
    long, rows = (text.replace("exp_f32(t)", "t") if calls == 1 else text for text in (CHAIN, ROWS))
    long, rows = built(long, "chain"), built(rows, "rows")
    x = np.random.default_rng(0).normal(0, 3, 3 * 300).astype(np.float32)
    expected = np.zeros_like(x)
    assert run(long.code, long.symbol, [], 0, x.size, x.ctypes.data, expected.ctypes.data) == 0
    for first, last in SPANS:
        y = np.zeros_like(x)
        assert run(rows.code, rows.symbol, [], 3, first, last, x.ctypes.data, y.ctypes.data, 300) == 0
        found, wanted = y.reshape(3, 300), np.zeros((3, 300), np.float32)
        wanted[:, first:last] = expected.reshape(3, 300)[:, first:last]
        assert found.tobytes() == wanted.tobytes(), (first, last)


SUMS = """
from numpy import float32
from jtorch.native.intrinsics import add_reassoc
from jtorch.native.vecmath import sin_f32

ARGUMENTS = ("i64", "i64", "i64", "f32*", "f32*", "i64")

def sums(count, first, last, x, y, c):
    for k in range(count):
        total = float32(0)
        for i in range(first, last):
            t = sin_f32(x[k * c + i])
            total = add_reassoc(total, t)
        y[k] = total
"""


def test_sums_of_rows_of_any_length():
    assert build.llvm_text(SUMS, "sums").count("llvm.loop.vectorize.predicate.enable") == 1
    kernel = built(SUMS, "sums")
    x = np.random.default_rng(0).normal(0, 3, 3 * 300).astype(np.float32)
    for first, last in SPANS:
        y = np.full(3, np.nan, np.float32)
        assert run(kernel.code, kernel.symbol, [], 3, first, last, x.ctypes.data, y.ctypes.data, 300) == 0
        expected = np.sin(x.astype(np.float64)).reshape(3, 300)[:, first:last].sum(1)
        np.testing.assert_allclose(y, expected, rtol=0, atol=3e-5)


APART = """
from jtorch.native.vecmath import tanh_f32

ARGUMENTS = ("i64", "f32*", "i64", "f32*")

def apart(n, x, c, y):
    for i in range(n):
        y[i] = tanh_f32(x[i * c])
"""


def test_vector_functions_run_over_elements_that_lie_apart():
    """LLVM makes vectors where it guesses the stride to be 1, and for no other, unless it cannot guess."""
    text = build.llvm_text(APART, "apart")
    assert "llvm.smax" in text and "llvm.smax" not in build.llvm_text(
        APART.replace("tanh_f32(", "("), "apart"
    )
    kernel = built(APART, "apart")
    assert re.search(r"(masked\.gather|insertelement <\d+ x float>)", kernel.optimised())
    x = np.random.default_rng(0).normal(0, 3, 1000).astype(np.float32)
    for stride in (1, 0, 2, 3, -1, -7):
        seen = x[500 :: stride or 1]
        n = min(seen.size, 50) - 1
        apart, given, together = (np.zeros(n, np.float32) for _ in range(3))
        given[:] = x[500] if stride == 0 else seen[:n]
        words = n, x.ctypes.data + 2000, stride, apart.ctypes.data
        assert run(kernel.code, kernel.symbol, [], *words) == 0
        assert run(kernel.code, kernel.symbol, [], n, given.ctypes.data, 1, together.ctypes.data) == 0
        assert apart.tobytes() == together.tobytes(), stride


@pytest.mark.slow
def test_every_kernel_of_a_training_step_is_written_here(caplog, tmp_path, monkeypatch):
    """Convolution, normalisation, attention's softmax, a loss, an optimizer, masks, draws, indices."""
    monkeypatch.setenv("JTORCH_CACHE", str(tmp_path))
    caplog.set_level(logging.INFO, "jtorch.cache")
    nn = jtorch.nn
    jtorch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(36, 8), nn.LayerNorm(8), nn.Dropout(0.3), nn.Softplus(), nn.Linear(8, 3),
    )  # fmt: skip
    optimizer = jtorch.optim.AdamW(model.parameters(), lr=0.01)

    @jtorch.compile
    def step(x, y, rows):
        optimizer.zero_grad()
        table = model(x)
        mask = jtorch.arange(3) < rows[:, None] % 3 + 1
        loss = nn.functional.cross_entropy(table.masked_fill(~mask, -10.0), y.clamp(max=0))
        loss = loss + table[rows].softmax(-1).std(0).sum() + (rows // 2 % 3).double().mean().float()
        loss.backward()
        optimizer.step()
        return loss, table.topk(2).indices, table.cumsum(1).argmax(0)

    step(jtorch.randn(6, 1, 6, 6), jtorch.arange(6) % 3, jtorch.arange(6).flip(0))
    told = [r.getMessage() for r in caplog.records]
    assert sum("compiled" in line for line in told) > 5
    assert not [line for line in told if "by way of Numba" in line]


@pytest.mark.slow
def test_several_threads_compile_the_same_code():
    texts = [built(source_of(*CASES[n]), "kernel").text for n in list(CASES)[:12]]
    alone = [loader.compile_ir(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(loader.compile_ir, texts * 3))
    assert together == alone * 3
