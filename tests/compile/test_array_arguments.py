"""NumPy arrays as arguments of compiled functions: elements are those of each call, and may be written."""

import dataclasses
import warnings

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import CompileError

T = jtorch


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


def recordings(compiled):
    return sum(map(len, compiled.plans.values()))


def values(result):
    if isinstance(result, (T.Tensor, np.ndarray)):
        return np.asarray(result.detach() if isinstance(result, T.Tensor) else result).tolist(), str(
            result.dtype
        )
    if isinstance(result, (tuple, list)):
        return [values(part) for part in result]
    return result


@dataclasses.dataclass
class Batch:
    x: object
    y: object


class Mine(np.ndarray):
    """An array of a class of its own, whose operators may mean anything."""


def write(a):
    T.from_numpy(a).mul_(2)
    return T.from_numpy(a).max()


FUNCTIONS = {
    "from_numpy": lambda a: T.from_numpy(a) * 2,
    "as_tensor": lambda a: T.as_tensor(a).abs(),
    "as_tensor of a dtype": lambda a: T.as_tensor(a, dtype=T.float64) + 1,
    "tensor": lambda a: T.tensor(a).add_(1),
    "tensor of a dtype": lambda a: T.tensor(a, dtype=T.float32) / 2,
    "asarray": lambda a: T.asarray(a) - 1,
    "beside a tensor": lambda a: T.ones(a.shape[-1]) * a + a,
    "shape": lambda a: T.zeros(a.shape) + a.ndim + len(a) + a.size,
    "dtype": lambda a: T.from_numpy(a).to(T.float64) if a.dtype == np.float32 else T.from_numpy(a) * 3,
    "part": lambda a: T.from_numpy(a)[1:] * 2,
    "the array": lambda a: (a, T.from_numpy(a)),
    "in place": write,
    "stacked": lambda a: T.stack([T.from_numpy(a), T.from_numpy(a) * 2]),
    "untouched": lambda a: T.ones(2),
}


def test_elements_are_those_of_each_call():
    for name, f in FUNCTIONS.items():
        compiled = T.compile(f)
        rng = np.random.default_rng(0)
        for _ in range(4):
            a = rng.normal(size=(3, 4)).astype(np.float32)
            b = a.copy()
            for _ in range(2):  # the same array with other elements
                got, expected = compiled(a), f(b)
                assert values(got) == values(expected), name
                assert a.tolist() == b.tolist(), name
                a += 1
                b += 1
        assert recordings(compiled) == 1, name


def test_a_returned_array_is_the_one_that_was_passed():
    f = T.compile(lambda a, x: (x + 1, [a]))
    for _ in range(3):
        a = ones(2)
        assert f(a, T.ones(2))[1][0] is a


def test_dtype_shape_strides_and_whether_it_can_be_written_are_guarded():
    f = T.compile(lambda a: T.from_numpy(a) * 2)
    frozen = ones(2, 3)
    frozen.flags.writeable = False
    kinds = [
        ones(2, 3), ones(3, 2), ones(2, 3, dtype=np.int64), ones(3, 2).T, ones(2, 6)[:, ::2],
        ones(2, 3, dtype=bool), ones(), ones(0, 3),
    ]  # fmt: skip
    for _ in range(2):
        for k, a in enumerate(kinds):
            assert values(f(a)) == values(T.from_numpy(a) * 2)
            assert recordings(f) >= min(k + 1, len(kinds))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a tensor over memory that cannot be written
        assert values(T.compile(lambda a: T.from_numpy(a).mul(3))(frozen)) == values(T.ones(2, 3) * 3)
    g = T.compile(lambda a: T.from_numpy(a).mul_(2))
    g(ones(2, 3))
    with pytest.raises(ValueError, match="read-only"):
        g(frozen)
    assert frozen.tolist() == ones(2, 3).tolist()


def test_nested_in_lists_dicts_and_dataclasses():
    def f(batch, more):
        x, y = T.from_numpy(batch.x), T.as_tensor(batch.y)
        return sum(T.from_numpy(a).sum() for a in more["parts"]) + (x * y).sum() + more["rate"]

    compiled = T.compile(f)
    for k in range(4):
        batch = Batch(ones(3) * k, T.ones(3) * 2)
        more = {"parts": [ones(2) + k, ones(4) * k], "rate": 0.5 * k}
        assert compiled(batch, more).item() == f(batch, more).item()
    assert recordings(compiled) == 1


def test_the_same_array_twice_an_array_and_its_tensor_and_arrays_that_overlap():
    def f(a, b):
        T.as_tensor(a).mul_(2)
        return T.as_tensor(a) + T.as_tensor(b)

    compiled = T.compile(f)
    for _ in range(2):
        for make in (
            lambda: (ones(3), ones(3)),
            lambda: (ones(3),) * 2,
            lambda: (a := ones(3), T.from_numpy(a)),
            lambda: (T.from_numpy(a := ones(3)), a),
        ):
            a, b = make()
            c, d = make()
            assert values(compiled(a, b)) == values(f(c, d))
            assert values(a) == values(c) and values(b) == values(d)
    whole = ones(5)
    with pytest.raises(CompileError, match=r"in f: .*memory that this shares"):
        compiled(whole[:3], whole[2:])
    assert whole.tolist() == [1.0] * 5
    both = T.compile(lambda a, b: T.from_numpy(a) + T.from_numpy(b))
    assert both(whole[:3], whole[2:]).tolist() == [2.0] * 3


OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!=")
UFUNCS = (
    "add", "subtract", "multiply", "true_divide", "floor_divide", "remainder", "power", "less", "less_equal",
    "greater", "greater_equal", "equal", "not_equal",
)  # fmt: skip


def check_on_either_side(expressions, array, x, n_recordings=1):
    """Of ``left`` and ``right``, one is the array, as argument and captured. Its elements change in place
    between calls, and as argument it is another one at the end."""
    held = array.copy()
    for left, right in (("a", "x"), ("x", "a"), ("held", "x"), ("x", "held")):
        texts = [expression.format(left=left, right=right) for expression in expressions]
        f = eval(f"lambda a, x: ({', '.join(texts)},)", {"held": held, "np": np})
        compiled, a = T.compile(f), array.copy()
        for k in range(3):
            for text, got, expected in zip(texts, compiled(a, x), f(a, x), strict=True):
                assert values(got) == values(expected), (text, array.dtype, array.shape, k)
            a = a.copy() if k == 1 else a
            for changed in (a, held):
                changed += np.ones_like(changed)
        assert recordings(compiled) <= n_recordings, (texts, array.dtype, array.shape)


def test_members_that_are_made_beside_arrays_are_counted():
    f = T.compile(lambda x, arrays: x * len(set(map(str, [1, 2, 2]))) + len(arrays), fullgraph=True)
    a, b = ones(3), ones(3)
    for arrays in ([a, b], [a, a], [b, a]):
        assert f(T.ones(2), arrays).tolist() == [4, 4]


@pytest.mark.parametrize(
    "f",
    [
        lambda x, arrays: x * len(set(map(id, arrays))),
        lambda x, arrays: x * (max(map(id, arrays)) % 7),
        lambda x, arrays: x * T.tensor(sorted(arrays, key=id)[0]),
    ],
)
def test_where_arrays_in_a_list_lie_is_another_place_at_each_call(f):
    with pytest.raises(CompileError, match=r"test_array_arguments.py.* asks for the id\(\) or hash\(\)"):
        T.compile(f, fullgraph=True)(T.ones(3), [ones(3), ones(3)])


@pytest.mark.slow
def test_operators_with_an_array_on_either_side_read_it_anew():
    expressions = [f"{{left}} {symbol} {{right}}" for symbol in OPERATORS]
    for dtype in (np.float32, np.float64, np.int64, np.longlong):
        for elements in ([1, 2, 3], 1):
            check_on_either_side(expressions, np.array(elements, dtype), T.full((3,), 2.0))
    bitwise = [f"{{left}} {symbol} {{right}}" for symbol in "&|^"]
    check_on_either_side(bitwise, np.array([1, 2, 3]), T.tensor([3, 1, 2]))
    backwards, x = np.arange(6, dtype=np.float32)[::-2], T.full((3,), 2.0)
    f = T.compile(lambda x: backwards - x)
    for _ in range(3):
        assert values(f(x)) == values(backwards - x)
        backwards += 1


def test_matrix_products_with_an_array_on_the_left_read_it_anew():
    for shape in ((3,), (2, 3)):
        held = ones(*shape)
        f = T.compile(lambda a, x, held=held: (a @ x, held @ x))
        for _ in range(3):
            assert values(f(held.copy(), T.ones(3, 2))) == values([held @ T.ones(3, 2)] * 2)
            held += 1
        assert recordings(f) == 1


def test_numpys_names_of_operators_read_an_array_anew():
    """Calls of NumPy's: the elements count by what they are."""
    calls = [f"np.{name}({{left}}, {{right}})" for name in UFUNCS]
    check_on_either_side(calls, np.array([1, 2, 3], np.float32), T.full((3,), 2.0), n_recordings=3)


def test_what_numpy_computes_or_makes_beside_a_tensor_stays_what_it_was():
    def made(a, x):
        fresh = np.zeros(2, np.float32)
        y = fresh + x
        fresh += 5
        return y + fresh.tolist()[0]

    for f in (made, lambda a, x: (a * 2) + x, lambda a, x: a[::-1] + x, lambda a, x: a[0] + x):
        compiled, a = T.compile(f), np.array([1, 2], np.float32)
        for _ in range(3):
            assert values(compiled(a, T.ones(2))) == values(f(a, T.ones(2)))
            a += 1


def test_an_array_beside_a_tensor_has_its_elements_of_before_a_write():
    def f(a, x):
        before = a * x
        T.from_numpy(a).mul_(2)
        return before, a * x, a < x

    compiled = T.compile(f)
    for k in range(3):
        a, b = np.array([1, k], np.float32), np.array([1, k], np.float32)
        assert values(compiled(a, T.full((2,), 3.0))) == values(f(b, T.full((2,), 3.0)))
        assert a.tolist() == b.tolist()


def test_gradients_of_what_stands_beside_an_array():
    def f(a, w):
        return ((a * w) ** 2).sum()

    compiled = T.compile(f)
    w = T.ones(2, requires_grad=True)
    for k in range(3):
        w.grad = None
        compiled(np.array([1, k], np.float32), w).backward()
        assert w.grad.tolist() == [2.0, 2.0 * k * k]
    assert recordings(compiled) == 1


def test_gradients_inside_and_outside():
    w, v = (T.ones(3, requires_grad=True) for _ in range(2))

    def loss(w, a):
        return (w * T.from_numpy(a)).square().sum()

    def step(w, a):
        w.grad = None
        loss(w, a).backward()
        return w.grad.sum().item()

    outside, inside = T.compile(loss), T.compile(step)
    for k in range(4):
        a = np.arange(3, dtype=np.float32) + k
        for p, f in ((w, outside), (v, loss)):
            p.grad = None
            f(p, a).backward()
        assert w.grad.tolist() == v.grad.tolist()
        assert inside(w, a) == step(v, a)
    assert recordings(outside) == 1


def test_what_numpy_reads_counts_by_its_elements():
    f = T.compile(lambda a, x: x * float(a[0]) * a.max())
    for a in ([1, 2], [3, 2], [1, 2], [0, 7]):
        a = np.array(a, np.float32)
        assert values(f(a, T.ones(2))) == values(T.ones(2) * float(a[0]) * a.max())
    assert recordings(f) == 3


def test_numbers_of_numpy():
    f = T.compile(lambda a, x: x * a)
    for a in (np.float32(2), np.float64(2), np.int64(3), np.bool_(True), np.float32(3)):
        assert values(f(a, T.ones(2))) == values(T.ones(2) * a), type(a)


def in_place_by_numpy(a, x):
    a[0] = 5
    return x * T.from_numpy(a)


def in_place_operator(a, x):
    a += 1
    return x * T.from_numpy(a)


def method_in_place(a, x):
    a.fill(3)
    return x


def output(a, x):
    np.add(a, 1, out=a)
    return x


def copied_to(a, x):
    np.copyto(a, 4)
    return x


def part(a, x):
    return T.from_numpy(a[1:]) * 2


def test_a_list_is_returned_or_changed_beside_a_number_of_which_the_digits_count():
    def named(x, values):
        return type(values[0]).__name__, values

    def summed(x, values):
        values.append(float(values[0]))
        return x * values[0], values[0]

    for f in (named, summed):
        compiled = T.compile(f, fullgraph=True)
        for k in (1, 2, 2):
            plain, recorded = ([np.float32(k), 2, ones(2)] for _ in range(2))
            assert repr(compiled(T.ones(2), recorded)) == repr(f(T.ones(2), plain)), f.__name__
            assert repr(recorded) == repr(plain), f.__name__


def test_what_numpy_changes_and_parts_are_refused_by_their_line():
    for f in (in_place_by_numpy, in_place_operator, method_in_place, output, copied_to, part):
        a = ones(3)
        with pytest.raises(CompileError) as caught:
            print(f.__name__, T.compile(f)(a, T.ones(3)))
        assert f"in {f.__name__}: " in str(caught.value)
        assert a.tolist() == [1.0, 1.0, 1.0], f.__name__
    with pytest.raises(CompileError, match=r"in <lambda>: .*from_numpy\(array\), whose elements"):
        T.compile(lambda a, x: x * a.sum())(ones(2000), T.ones(3))


def test_arrays_that_no_tensor_can_be_are_refused():
    f = T.compile(lambda a: T.ones(2))
    records = np.zeros(2, [("x", np.float32)])
    for a in (
        np.array([None, 1]), np.array(["a"]), records, np.ma.masked_array([1.0], [True]), ones(3)[::-1],
        np.array(["2020-01-01"], "M8[D]"), ones(3).astype(">f4"), ones(3).view(Mine),
    ):  # fmt: skip
        with pytest.raises(
            CompileError, match=r"test_array_arguments.py:\d+ .*got a NumPy array of .*pass a"
        ):
            f(a)


def test_such_an_array_is_refused_by_its_line_at_a_later_call_too():
    f = T.compile(lambda x, a: x + a)
    x, a = T.ones(3), ones(3)
    assert f(x, a).tolist() == [2, 2, 2]
    with pytest.raises(CompileError, match=r"test_array_arguments.py:\d+ .*got a NumPy array of .*pass a"):
        f(x, a[::-1])
    assert f(x, a).tolist() == [2, 2, 2] and recordings(f) == 1


@pytest.mark.slow
def test_questions_about_the_latest_call():
    f = T.compile(lambda a: T.from_numpy(a) * 2)
    a = ones(3)
    f(a)
    f.profile()
    f.stats(a)
    assert f.record_again(a) == ""
    verified = T.compile(lambda a: T.from_numpy(a).mul_(2).sum(), verify="first")
    assert verified(a).item() == 6.0 and a.tolist() == [2.0] * 3
