"""Functions that go by the elements of tensors: those that branch, and those whose sizes are known."""

import pytest

import jtorch
from jtorch.core.errors import CompileError
from jtorch.nn import functional as F

X, Y = jtorch.tensor([1.0, 2.0]), jtorch.tensor([1.0, 3.0])


def assert_like_eager(f, calls, name=""):
    """With ``backward()`` outside for the first argument."""
    compiled = jtorch.compile(f)
    for arguments in calls * 2:
        found = []
        for g in (compiled, f):
            jtorch.manual_seed(0)
            x, *rest = arguments
            x = x.detach().clone().requires_grad_(x.is_floating_point())
            y = g(x, *rest)
            if y.requires_grad:
                (y * y).sum().backward()
            found.append((y, x.grad))
        (y, grad), (expected, expected_grad) = found
        assert y.dtype is expected.dtype, name
        assert jtorch.allclose(y, expected, equal_nan=True), name
        assert (grad is None) == (expected_grad is None), name
        assert grad is None or jtorch.allclose(grad, expected_grad, equal_nan=True), name


@pytest.mark.slow
def test_whether_tensors_are_equal_is_a_branch():
    for name, f in {
        "equal": lambda x, y: x * 2 if jtorch.equal(x, y) else x * y,
        "not equal": lambda x, y: x * 2 if not x.equal(y) else x * y,
        "a number": lambda x, y: x * int(jtorch.equal(x, y)) + jtorch.equal(x, y),
        "allclose": lambda x, y: x * 2 if jtorch.allclose(x, y) else x * y,
        "is_nonzero": lambda x, y: x * 2 if jtorch.is_nonzero((x - y).sum()) else x * y,
        "any": lambda x, y: x * 2 if jtorch.any(x < y) else x * y,
        "all": lambda x, y: x * 2 if (x == y).all() else x * y,
    }.items():
        assert_like_eager(f, [(X, X.clone()), (X, Y), (Y, X)], name)


def test_tensors_of_other_shapes_and_dtypes_are_compared():
    f = jtorch.compile(lambda x, y: x * 2 if jtorch.equal(x, y) else x * 3)
    for y, factor in ((jtorch.ones(3), 3), (X.double(), 2), (X.long(), 2), (jtorch.ones(0), 3)):
        assert jtorch.equal(f(X, y), X * factor)
    assert f(jtorch.ones(0), jtorch.ones(0)).shape == (0,)


def test_repeats_of_a_known_sum():
    x, r = jtorch.arange(8.0).reshape(4, 2), jtorch.tensor([2, 0, 1, 3])
    f = lambda x, r: x.repeat_interleave(r, dim=0, output_size=6)  # noqa: E731
    assert_like_eager(f, [(x, r), (x, r.flip(0)), (x, jtorch.tensor([0, 0, 0, 6]))])
    assert_like_eager(
        lambda x, r: jtorch.repeat_interleave(x, r, output_size=8), [(x, jtorch.tensor([1] * 8))]
    )
    assert_like_eager(
        lambda x, r: x.repeat_interleave(r, 1, output_size=3),
        [(x, jtorch.tensor([1, 2], dtype=jtorch.int32))],
    )
    compiled = jtorch.compile(f)
    compiled(x, r)
    with pytest.raises(RuntimeError, match="allocated size does not match required size"):
        compiled(x, r + 1)
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        compiled(x, jtorch.tensor([-1, 3, 2, 2]))
    assert_like_eager(lambda x, r: x.repeat_interleave(r, dim=0), [(x, r), (x, r.flip(0)), (x, r * 2)])


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_that_begin_at_offsets(mode):
    ids = jtorch.tensor([1, 2, 4, 5, 4, 3, 2, 9])
    jtorch.manual_seed(1)
    table = jtorch.randn(10, 3)
    for padding in (None, 2):
        for last in (False, True):

            def f(w, offsets, padding=padding, last=last):
                return F.embedding_bag(
                    ids, w, offsets, mode=mode, padding_idx=padding, include_last_offset=last
                )

            ends = [[0, 4, 8], [0, 0, 3], [0, 2, 2], [0, 8, 8]]
            assert_like_eager(f, [(table, jtorch.tensor(end)) for end in ends], f"{padding} {last}")


def test_bags_with_factors_and_of_a_layer():
    ids, factors = jtorch.tensor([1, 2, 4, 5]), jtorch.tensor([0.5, 2.0, -1.0, 3.0])
    table = jtorch.arange(30.0).reshape(10, 3)
    calls = [(factors, jtorch.tensor([0, 2])), (factors, jtorch.tensor([0, 4]))]
    assert_like_eager(
        lambda p, offsets: F.embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=p), calls
    )
    layer = jtorch.nn.EmbeddingBag(10, 3)
    assert_like_eager(lambda ids, offsets: layer(ids, offsets), [(ids, o) for _, o in calls])


def test_offsets_that_do_not_fit():
    ids, table = jtorch.tensor([1, 2]), jtorch.ones(3, 2)
    f = jtorch.compile(lambda offsets: F.embedding_bag(ids, table, offsets))
    f(jtorch.tensor([0, 1]))
    for offsets, sentence in (
        ([1, 2], "has to be 0"),
        ([0, 3], "can not be greater than"),
        ([0, 2, 1], "decrease"),
    ):
        with pytest.raises(RuntimeError, match=sentence):
            f(jtorch.tensor(offsets))


def test_a_truncated_normal_of_each_call():
    def f(x, mean, a):
        w = jtorch.empty(3, 2)
        jtorch.nn.init.trunc_normal_(w, mean=mean, std=0.5, a=a, b=3.0)
        return x * w

    compiled = jtorch.compile(f)
    for mean, a in ((0.0, -1.0), (1.0, 2.0)):
        jtorch.manual_seed(0)
        expected = [f(X, mean, a) for _ in range(3)]
        jtorch.manual_seed(0)
        assert all(jtorch.allclose(compiled(X, mean, a), y, atol=1e-6) for y in expected)


def test_lengths_of_a_list_of_sequences_are_refused_with_their_line():
    def f(x, lengths):
        return jtorch.nn.utils.rnn.unpad_sequence(x, lengths)[0]

    with pytest.raises(CompileError, match=r"test_elements_that_decide.py.* lengths of packed sequences"):
        jtorch.compile(f)(jtorch.ones(4, 2, 1), jtorch.tensor([4, 2]))
