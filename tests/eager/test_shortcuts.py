"""The usual case of ops in machine code gives what Python gives, or leaves it to Python."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import warnings
import weakref

import numpy as np
import pytest

import jtorch
from jtorch.core.op import BY_NAME, TABLE
from jtorch.eager import binding, shortcuts
from jtorch.eager.evaluate import EAGER
from jtorch.eager.node import Node
from jtorch.eager.source import apply_source
from jtorch.eager.tensor import Tensor
from jtorch.eager.unusual import WATCHERS, give_complex_class
from jtorch.eager.views import UNLISTED
from tests.each import each
from tests.machine_code import expected, needs_machine_code
from tests.ops.samples import samples
from tests.ops.support import CASES, tensors

pytestmark = needs_machine_code


def _in_python(name):
    op, namespace = BY_NAME[name], {}
    binding._fill(namespace, op)
    exec(apply_source(op, False), namespace)
    return namespace[name]


def _native(name):
    return shortcuts.shortcut(BY_NAME[name])


def _same(a, b):
    """Whether two things that a tensor or node holds are equal; objects of the program must be the same."""
    if isinstance(a, np.ndarray):
        same = (a.dtype, a.shape, a.strides) == (b.dtype, b.shape, b.strides)
        return same and a.tobytes() == b.tobytes()
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, weakref.ref):
        return True
    return a is b or (isinstance(a, (bool, int, float, np.dtype)) and a == b)


def _assert_alike(ours, theirs, arguments):
    assert type(ours) is type(theirs) is Tensor
    assert _same(ours._data, theirs._data)
    for slot in ("_base", "_grad", "_hooks", "_index", "_requires_grad"):
        assert getattr(ours, slot) is getattr(theirs, slot), slot
    assert _same(getattr(ours, "_how", "unset"), getattr(theirs, "_how", "unset"))
    cells = [a._cell for a in arguments if isinstance(a, Tensor)]
    assert [ours._cell is c for c in cells] == [theirs._cell is c for c in cells]
    assert _same(ours._cell[0], theirs._cell[0])
    if theirs._node is None:
        assert ours._node is None
        return
    node, expected = ours._node, theirs._node
    assert type(node) is type(expected)
    assert node.extras is expected.extras is None
    for slot in ("edges", "saved", "metadata"):
        assert _same(getattr(node, slot), getattr(expected, slot)), slot
    assert _same(node.versions[1::2], expected.versions[1::2])
    for cell, other in zip(node.versions[::2], expected.versions[::2], strict=True):
        assert (cell is ours._cell and other is theirs._cell) or cell is other


def _cases():
    return [c for c in CASES if _native(c.values[0]) is not None] if expected else CASES


@each("name, k", _cases(), parts=2)
@each("gradients", ["all", "first", "last", "none", "no_grad"])
def test_machine_code_makes_what_python_makes(name, k, gradients):
    native, python, sample = _native(name), _in_python(name), samples(name)[k]
    if sample.symmetric:
        return
    for dtype in (np.float64, np.float32):
        cast = sample.cast(dtype)
        arguments = tensors(cast, gradients != "none")
        floats = [a for a in arguments if isinstance(a, Tensor) and a._requires_grad]
        if gradients in ("first", "last"):
            for a in floats[1:] if gradients == "first" else floats[:-1]:
                a.requires_grad_(False)
        with jtorch.set_grad_enabled(gradients != "no_grad"):
            computed = [a * 1 if isinstance(a, Tensor) and a._requires_grad else a for a in arguments]
            for given in (arguments, computed):
                ours = native(*given, *(cast.statics[s] for s in BY_NAME[name].statics))
                if ours is not None:
                    _assert_alike(ours, python(*given, **cast.statics), given)


def test_all_ops_with_a_usual_case_take_it():
    left = []
    for op in TABLE:
        own_dtype = not isinstance(op.dtype, str) or op.dtype == "static"
        if _native(op.name) is None or own_dtype:  # these only where no gradient is wanted
            continue
        for sample in samples(op.name):
            values = [a for a in sample.args if isinstance(a, np.ndarray)]
            if values and all(a.dtype == np.float64 for a in values) and len(values) == len(sample.args):
                given = tensors(sample, True)
                if _native(op.name)(*given, *(sample.statics[s] for s in op.statics)) is None:
                    left.append(op.name)
    assert not left


def _leaves(*shapes):
    return [jtorch.rand(*shape, requires_grad=True) for shape in shapes]


CALLS = {
    "add": lambda x, y: ("add", x, y),
    "weak number": lambda x, y: ("mul", x, 2.5),
    "integer": lambda x, y: ("mul", 2, x),
    "unusual number": lambda x, y: ("mul", x, True),
    "saves its result": lambda x, y: ("tanh", x),
    "saves needs": lambda x, y: ("div", x, y),
    "saves a shape": lambda x, y: ("sum", x, (0,), False),
    "scalar": lambda x, y: ("sum", x, (0, 1), False),
    "view": lambda x, y: ("select", x, 0, 1),
    "view of a result": lambda x, y: ("select", x * 1, 0, 1),
    "reshape": lambda x, y: ("reshape", x, (6,)),
    "reshape that copies": lambda x, y: ("reshape", x.t(), (6,)),
    "error": lambda x, y: ("add", x, y[:, :2]),
    "error of a static": lambda x, y: ("reshape", x, (5,)),
    "none": lambda x, y: ("linear", x, jtorch.ones(4, 3), None),
    "casts to integers": lambda x, y: ("cast", x, np.dtype(np.int64)),
}


def _quietly(function):
    def called(*arguments):
        try:
            return function(*arguments)
        except (ValueError, RuntimeError):
            return None

    return called


@pytest.mark.parametrize("what", CALLS)
def test_every_reference_is_counted(what):
    x, y = _leaves((2, 3), (2, 3))
    name, *given = CALLS[what](x, y)
    native, kept = _quietly(_native(name)), [x, x._data, x._cell, y, y._data, y._cell, *given, None]
    if getattr(given[0], "_data", None) is not None:
        kept += [given[0]._data, given[0]._cell, given[0]._node]
    made = [native(*given) for _ in range(3)]
    del made
    gc.collect()
    before = [sys.getrefcount(k) for k in kept]
    for _ in range(100):
        native(*given)
    assert all(abs(n - m) < 50 for n, m in zip([sys.getrefcount(k) for k in kept], before, strict=True))
    blocks = sys.getallocatedblocks()
    for _ in range(10_000):
        native(*given)
    assert sys.getallocatedblocks() - blocks < 100


def test_results_live_as_long_as_they_are_held():
    x, y = _leaves((2, 3), (2, 3))
    out = _native("mul")(x, y)
    data, node = weakref.ref(out._data), weakref.ref(out._node)
    assert node() is out._node and gc.is_tracked(out) and gc.is_tracked(out._node)
    out.sum().backward()
    assert np.array_equal(x.grad._data, y._data)
    del out
    assert data() is None and node() is None


def test_the_shape_and_dtype_of_each_result_are_its_own():
    exp = _native("exp")
    five = (1, 2, 3, 4, 5)
    for shape in [(2, 3), (3, 2), (6,), (1,), (2, 3), five[:4], five, five, (2, 3)] * 2:
        for dtype in (jtorch.float32, jtorch.float64):
            out = exp(jtorch.ones(*shape, dtype=dtype, requires_grad=True))
            assert out._node.metadata == (shape, dtype.numpy)


def test_what_is_unusual_is_left_to_python():
    x, y = _leaves((2, 3), (2, 3))
    add, mul = _native("add"), _native("mul")
    ints = jtorch.ones(2, 3, dtype=jtorch.int64)
    bare = object.__new__(Tensor)
    for given in [
        (), (x,), (x, y, y), (1.0, 2.0), (x, "1"), (x, True), (x, y._data), (x, y.double()),
        (ints, 1.5), (bare, y), (x, [1.0]), (x, np.float64(2.0)), (x, 1 + 2j),
    ]:  # fmt: skip
        assert add(*given) is None, given
    assert add(ints, ints) is not None
    assert mul(ints, ints.bool()) is None
    assert _native("exp")(ints) is None
    with jtorch.autograd.set_detect_anomaly(True):
        assert WATCHERS
        assert add(x, y) is None


def test_an_integer_too_large_for_a_float():
    (x,) = _leaves((2,))
    assert _native("add")(x, 10**400) is None
    for call in (_in_python("add"), jtorch.add):
        with pytest.raises(OverflowError, match=r"^int too large to convert to float$"):
            call(x, 10**400)


def test_complex_results_are_looked_at():
    z = jtorch.ones(2, dtype=jtorch.complex64, requires_grad=True)
    assert [give_complex_class] == WATCHERS
    (x,) = _leaves((2,))
    for given in ((z, z), (x, x)):
        native, python = (add(*given)._node for add in (_native("add"), _in_python("add")))
        assert type(native) is type(python)


def test_an_argument_that_may_be_none_elsewhere():
    (x,) = _leaves((2, 3))
    assert _native("add")(x, None) is None  # Python says what is wrong
    raised = []
    for add in (_in_python("add"), jtorch.add):
        with pytest.raises(TypeError, match="must be Tensor or a number, not NoneType") as error:
            add(x, None)
        raised.append(str(error.value))
    assert raised[0] == raised[1]


def test_subclasses_and_parameters_are_tensors():
    class Mine(Tensor):
        pass

    x = jtorch.nn.Parameter(jtorch.ones(3))
    mine = jtorch.ones(3).as_subclass(Mine)
    out = _native("add")(x, mine)
    assert type(out) is Tensor and out._node.edges == ((x, 0), None)


def test_ops_of_compiled_code_are_recorded():
    add = _native("add")

    @jtorch.compile
    def f(x):
        assert add(x, x) is None
        return x + x

    assert f(jtorch.ones(3)).tolist() == [2, 2, 2]


def test_a_replaced_entry_of_the_table_is_called():
    """As the profiler does; what is no ``Exception`` comes through, and errors are explained by Python."""
    x, y = _leaves((3,), (3,))
    index = BY_NAME["add"].index
    plain = EAGER.on_host[index]
    raised = []

    def interrupted(a, b):
        raised.append(a)
        raise raising("asked")

    EAGER.on_host[index] = interrupted
    try:
        raising = KeyboardInterrupt
        with pytest.raises(KeyboardInterrupt):
            x + y
        assert len(raised) == 1
        raising = ValueError
        with pytest.raises(ValueError, match="asked"):
            x + y
        assert len(raised) == 2
    finally:
        EAGER.on_host[index] = plain
    assert (x + y)._node is not None


def test_an_error_names_the_op_and_the_shapes():
    with pytest.raises(RuntimeError, match=r"size of tensor a \(3\) must match"):
        jtorch.ones(3, requires_grad=True) + jtorch.ones(4)


def test_versions_are_those_of_the_moment():
    x, y = (t * 1 for t in _leaves((3,), (3,)))
    y.add_(1)
    out = _native("mul")(x, y)
    assert out._node.versions[1::2] == (0, 1)
    y.add_(1)
    with pytest.raises(RuntimeError, match="is at version 2; expected version 1"):
        out.sum().backward()


def test_views_are_listed_where_an_in_place_op_must_find_them():
    select = _native("select")
    leaf = jtorch.ones(3, 2, requires_grad=True)
    views = [select(leaf, 0, 0), select(leaf, 0, 1)]
    assert leaf._cell == [0, UNLISTED]
    buffer = jtorch.ones(3, 2)
    views = [select(buffer, 0, k) for k in range(3)]
    assert [r() for r in buffer._cell[1:]] == views
    for _ in range(1000):
        select(buffer, 0, 0)
    assert len(buffer._cell) < 70
    below = select(views[0], 0, 1)
    assert below._base is buffer and below._how == (views[0], BY_NAME["select"], 0, 1)
    with jtorch.no_grad():
        assert select(leaf, 0, 0)._how is None


def test_a_reshape_that_copies_has_memory_of_its_own():
    x = jtorch.ones(2, 3)
    reshape = _native("reshape")
    assert reshape(x.t(), (6,))._cell is not x._cell
    assert reshape(x.t(), (6,))._base is None
    assert reshape(x[:1], (3, 1))._cell is x._cell
    assert reshape(jtorch.ones(0, 3)[:0], (3, 0))._data.shape == (3, 0)


def test_the_tape_is_a_cycle_that_the_collector_finds():
    out = _native("mul")(*_leaves((3,), (3,)))
    out._cell.append(out)
    node = weakref.ref(out._node)
    del out
    gc.collect()
    assert node() is None


def test_nodes_are_nodes():
    (x,) = _leaves((3,))
    node = _native("exp")(x)._node
    assert isinstance(node, Node) and node.name() == "ExpBackward0"


class LateError(Exception):
    pass


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_what_a_signal_handler_raises_in_an_op_comes_through():
    fired = seen = 0

    def handler(*_):
        nonlocal fired
        fired += 1
        raise LateError

    def normalise(x, seconds):  # from CPython 3.12 on a loop's jump back is outside of the try around it
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            jtorch.nn.functional.layer_norm(x, (64,))

    x = jtorch.rand(64, 64)
    jtorch.nn.functional.layer_norm(x, (64,))  # imports what it needs
    before = signal.signal(signal.SIGALRM, handler)
    try:
        for k in range(20):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001 + k * 1e-5)
                normalise(x, 0.02)
            except LateError:
                seen += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen == fired > 0


def test_flags_need_not_be_the_bools():
    x = jtorch.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=1)
    y.backward()
    assert x.grad.tolist() == [4, 8]
    (g,) = jtorch.autograd.grad((x * x * x).sum(), x, create_graph=np.True_)
    assert g.requires_grad


class Finalizer:
    def __init__(self, function):
        self.function = function
        self.cycle = self

    def __del__(self):
        self.function()


@pytest.mark.slow
def test_a_finalizer_may_change_the_argument_at_any_allocation():
    base = jtorch.ones(3, requires_grad=True)
    (base * 1).exp().sum().backward()
    kept, threshold = [], gc.get_threshold()
    try:
        for k in range(16):
            x = base * 1
            node = x._node
            gc.collect()
            gc.disable()
            Finalizer(x.detach_)
            kept += [[(i, i) for i in range(2100)], [(i,) for i in range(2100)]]  # no tuple lies ready
            gc.set_threshold(gc.get_count()[0] + k, 1000, 1000)
            gc.enable()
            y = x.exp()
            gc.disable()
            gc.set_threshold(100_000)
            if y._node is not None:
                assert y._node.edges == ((node, 0),)
            del y, x, node
    finally:
        gc.set_threshold(*threshold)
        gc.enable()


def test_warnings_come_once():
    x = jtorch.tensor([float("nan"), 1.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        x.long()
    assert len(seen) == 1


def test_a_view_without_elements_is_a_view():
    a = jtorch.zeros(2, 6)
    for view in (a[:0].reshape(6, 0), _in_python("reshape")(a[:0], shape=(6, 0))):
        assert view._base is a and view._cell is a._cell


@pytest.mark.parametrize("setting", ["JTORCH_JIT=0", "JTORCH_CACHE=0", f"JTORCH_CACHE={os.devnull}"])
def test_eager_mode_goes_on_without_machine_code_and_says_nothing(setting):
    program = (
        "import jtorch, sys; x = jtorch.ones(2, requires_grad=True); (x * x).sum().backward();"
        "from jtorch.eager.shortcuts import shortcut; from jtorch.core.op import TABLE;"
        "print(x.grad.tolist(), any(map(shortcut, TABLE)), 'llvmlite' in sys.modules)"
    )
    env = os.environ | dict([setting.split("=")])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert (done.stdout.strip(), done.stderr) == ("[2.0, 2.0] False False", "")
