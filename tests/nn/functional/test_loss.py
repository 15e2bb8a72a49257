"""Losses of nn.functional against PyTorch in float64: values, gradients, reductions, warnings and errors."""

from __future__ import annotations

import math
import types

import numpy as np
import pytest

import jtorch
from jtorch.nn import functional as F
from tests.ops.oracle import compare

RNG = np.random.default_rng(0)
X, Y, Z = (RNG.standard_normal((6, 4)) for _ in range(3))
P, Q = (1 / (1 + np.exp(-v)) for v in (X, Y))
SIGNS = np.sign(Y)
ROW_SIGNS = np.sign(Y[:, 0])
CLASSES = np.array([0, 3, 1, 1, 2, 0])
LISTS = np.array([[0, 2, -1, 1], [3, -1, 0, 0], [-1, 0, 1, 2], [0, 1, 2, 3], [1, 1, -1, 2], [2, -1, -1, -1]])
IMAGE = RNG.standard_normal((2, 4, 3, 2))
IMAGE_CLASSES = RNG.integers(0, 4, (2, 3, 2))
SOFT = np.exp(Y) / np.exp(Y).sum(1, keepdims=True)
IMAGE_SOFT = np.exp(IMAGE[::-1]) / np.exp(IMAGE[::-1]).sum(1, keepdims=True)
WEIGHT = np.array([0.5, 2.0, 1.0, 0.1])
EXACT = {"rtol": 1e-11, "atol": 1e-12}

CALLS = [
    ("l1_loss", [X, Y], {}),
    ("mse_loss", [X, Y], {}),
    ("smooth_l1_loss", [X, Y], {"beta": 0.7}),
    ("smooth_l1_loss", [X, Y], {"beta": 0.0}),
    ("huber_loss", [X, Y], {"delta": 0.7}),
    ("poisson_nll_loss", [X, P * 3], {}),
    ("poisson_nll_loss", [P, Q * 3], {"log_input": False, "full": True}),
    ("gaussian_nll_loss", [X, Y, P], {}),
    ("gaussian_nll_loss", [X, Y, P[:, :1]], {"full": True}),
    ("gaussian_nll_loss", [X, Y, P[:, 0]], {"eps": 0.5}),
    ("kl_div", [X, P], {}),
    ("kl_div", [X, Y], {"log_target": True}),
    ("binary_cross_entropy", [P, Q], {}),
    ("binary_cross_entropy", [P, Q], {"weight": Q[0]}),
    ("binary_cross_entropy_with_logits", [X, Q], {}),
    ("binary_cross_entropy_with_logits", [X, Q], {"weight": P, "pos_weight": WEIGHT}),
    ("soft_margin_loss", [X], {"target": SIGNS}),
    ("hinge_embedding_loss", [X, SIGNS], {"margin": 0.4}),
    ("margin_ranking_loss", [X, Y, SIGNS], {"margin": 0.2}),
    ("cosine_embedding_loss", [X, Y, ROW_SIGNS], {"margin": 0.1}),
    ("multilabel_soft_margin_loss", [X, P], {}),
    ("multilabel_soft_margin_loss", [X, P, WEIGHT], {}),
    ("multilabel_margin_loss", [X, LISTS], {}),
    ("multi_margin_loss", [X, CLASSES], {}),
    ("multi_margin_loss", [X, CLASSES], {"p": 2, "margin": 0.6, "weight": WEIGHT}),
    ("triplet_margin_loss", [X, Y, Z], {}),
    ("triplet_margin_loss", [X, Y, Z], {"p": 1.5, "swap": True, "margin": 0.7}),
    ("triplet_margin_with_distance_loss", [X, Y, Z], {"swap": True}),
    ("nll_loss", [X, CLASSES], {}),
    ("nll_loss", [X, CLASSES], {"weight": WEIGHT, "ignore_index": 1}),
    ("nll_loss", [IMAGE, IMAGE_CLASSES], {"weight": WEIGHT}),
    ("cross_entropy", [X, CLASSES], {}),
    ("cross_entropy", [X, CLASSES], {"ignore_index": 0, "label_smoothing": 0.2}),
    ("cross_entropy", [X, CLASSES], {"weight": WEIGHT, "label_smoothing": 0.2, "ignore_index": 1}),
    ("cross_entropy", [IMAGE, IMAGE_CLASSES], {}),
    ("cross_entropy", [IMAGE, IMAGE_CLASSES], {"weight": WEIGHT, "label_smoothing": 0.3}),
    ("cross_entropy", [X, SOFT], {}),
    ("cross_entropy", [X, SOFT], {"weight": WEIGHT, "label_smoothing": 0.1}),
    ("cross_entropy", [IMAGE, IMAGE_SOFT], {"label_smoothing": 0.1}),
]


def _call(name, options, reduction, library):
    def call(functions, *tensors):
        made = {
            k: library(functions).tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()
        }
        return getattr(functions, name)(*tensors, **made, reduction=reduction)

    return call


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("name", "arrays", "options"), CALLS, ids=[f"{c[0]}-{k}" for k, c in enumerate(CALLS)]
)
@pytest.mark.filterwarnings("ignore:reduction:UserWarning")
def test_equals_pytorch(torch, name, arrays, options, reduction):
    def library(functions):
        return jtorch if functions is F else torch

    compare(_call(name, options, reduction, library), F, torch.nn.functional, arrays, **EXACT)


def test_single_examples(torch):
    for name, arrays in (
        ("cross_entropy", [X[0], np.array(2)]),
        ("nll_loss", [X[0], np.array(2)]),
        ("multi_margin_loss", [X[0], np.array(2)]),
        ("multilabel_margin_loss", [X[0], LISTS[0]]),
        ("cosine_embedding_loss", [X[0], Y[0], np.array(1.0)]),
        ("cross_entropy", [X[0], SOFT[0]]),
    ):
        for reduction in ("mean", "none"):
            compare(_call(name, {}, reduction, None), F, torch.nn.functional, arrays, **EXACT)


def test_weights_of_elements(torch):
    for name in ("mse_loss", "l1_loss", "huber_loss"):
        for reduction in ("mean", "sum", "none"):

            def call(functions, x, y, w, name=name, reduction=reduction):
                return getattr(functions, name)(x, y, weight=w, reduction=reduction)

            compare(call, F, torch.nn.functional, [X, Y, P], **EXACT)
    with pytest.raises(ValueError, match=r"Weights and input must have the same size\."):
        F.mse_loss(jtorch.ones(2), jtorch.ones(2), weight=jtorch.ones(3))


def test_kl_div_batchmean(torch):
    def call(functions, x, y):
        return functions.kl_div(x, y, reduction="batchmean")

    compare(call, F, torch.nn.functional, [X, P], **EXACT)
    with pytest.warns(UserWarning, match="'batchmean' divides only by the batch size"):
        F.kl_div(jtorch.ones(2), jtorch.ones(2))


def test_all_ignored_and_no_rows():
    nothing = F.cross_entropy(jtorch.ones(2, 3), jtorch.tensor([-100, -100]))
    assert math.isnan(nothing.item())
    assert math.isnan(F.mse_loss(jtorch.ones(0), jtorch.ones(0)).item())
    assert F.mse_loss(jtorch.ones(0), jtorch.ones(0), reduction="sum").item() == 0.0
    assert F.nll_loss(jtorch.ones(0, 3), jtorch.zeros(0, dtype=jtorch.int64), reduction="none").shape == (0,)


def test_older_arguments():
    a, b = jtorch.tensor([1.0, 2.0]), jtorch.tensor([0.0, 0.0])
    for given, reduction, value in (
        ({"size_average": True}, "mean", 2.5),
        ({"size_average": False}, "sum", 5.0),
        ({"reduce": False}, "none", [1.0, 4.0]),
    ):
        with pytest.warns(UserWarning, match=f"please use reduction='{reduction}' instead"):
            assert F.mse_loss(a, b, **given).tolist() == value
        with pytest.warns(UserWarning, match=f"please use reduction='{reduction}' instead"):
            assert jtorch.nn.MSELoss(**given).reduction == reduction


def test_other_sizes_warn():
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        with pytest.warns(
            UserWarning, match=r"Using a target size \(torch.Size\(\[3\]\)\) that is different"
        ):
            getattr(F, name)(jtorch.ones(2, 3), jtorch.ones(3))


ERRORS = [
    (
        lambda F, x: F.mse_loss(x.ones(2), x.ones(2), reduction="all"),
        "all is not a valid value for reduction",
    ),
    (lambda F, x: F.gaussian_nll_loss(x.ones(2), x.ones(2), x.ones(3)), "var is of incorrect size"),
    (lambda F, x: F.gaussian_nll_loss(x.ones(2), x.ones(2), -1.0), "var has negative entry/entries"),
    (
        lambda F, x: F.multi_margin_loss(x.ones(2, 3), x.tensor([0, 1]), p=3),
        "only p == 1 and p == 2 supported",
    ),
    (
        lambda F, x: F.multi_margin_loss(x.ones(2, 3), x.tensor([0])),
        r"Expected target size \[2\], but got \[1\]",
    ),
    (
        lambda F, x: F.triplet_margin_loss(x.ones(2), x.ones(2), x.ones(2), margin=0),
        "margin must be greater than 0",
    ),
    (
        lambda F, x: F.triplet_margin_loss(x.ones(2, 2), x.ones(2, 2), x.ones(2)),
        "anchor 2D, positive 2D, and negative 1D",
    ),
    (
        lambda F, x: F.margin_ranking_loss(x.ones(2, 2), x.ones(2), x.ones(2)),
        "All input tensors should have same dimension",
    ),
    (
        lambda F, x: F.cosine_embedding_loss(x.ones(2), x.ones(2), x.ones(2)),
        "1D target tensor expects 2D input tensors",
    ),
    (
        lambda F, x: F.cross_entropy(x.ones(2, 3), x.tensor([0, 1]), label_smoothing=2.0),
        "must be between 0.0 and 1.0",
    ),
    (
        lambda F, x: F.cross_entropy(x.ones(2, 3), x.tensor([0, 1, 2])),
        r"input batch_size \(2\) to match target batch_size \(3\)",
    ),
    (
        lambda F, x: F.cross_entropy(x.ones(2, 3), x.tensor(0)),
        r"input batch_size \(2\) to match target batch_size \(0\)",
    ),
    (lambda F, x: F.nll_loss(x.ones(2, 3), x.tensor([[0], [1]])), "multi-target not supported"),
    (lambda F, x: F.nll_loss(x.ones(3), x.tensor([0, 1])), "target must have size 1, but got target size: 2"),
    (
        lambda F, x: F.nll_loss(x.ones(2, 3, 4), x.tensor([0, 1])),
        r"Expected target size \[2, 4\], got \[2\]",
    ),
    (
        lambda F, x: F.cross_entropy(x.ones(1, 3, 2, 2), x.tensor([[0, 1]])),
        r"only batches of spatial targets supported \(3D tensors\) but got targets of dimension: 2",
    ),
    (
        lambda F, x: F.cross_entropy(x.ones(1, 3, 2, 2), x.tensor([[[0, 1]]])),
        r"size mismatch \(got input: \[1, 3, 2, 2\] , target: \[1, 1, 2\]",
    ),
    (
        lambda F, x: F.cross_entropy(x.ones(2, 3), x.tensor([0, 1]), weight=x.ones(2)),
        "for all 3 classes or no classes",
    ),
    (
        lambda F, x: F.smooth_l1_loss(x.ones(2), x.ones(2), beta=-1.0),
        "does not support negative values for beta",
    ),
    (
        lambda F, x: F.huber_loss(x.ones(2), x.ones(2), delta=0.0),
        "does not support non-positive values for delta",
    ),
    (lambda F, x: F.binary_cross_entropy_with_logits(x.ones(2), x.ones(3)), "must be the same as input size"),
]


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_targets_beside_weights(torch, name):
    """Of classes that there are not, of 8 bits (as an index those are a mask), and ignored ones."""
    calls = [
        (target, dtype, ignored)
        for target in ([0, -1, 1], [0, 3, 1], [0, 2, 1], [1, 1, 0], [0, -100, 2])
        for dtype in ("int64", "uint8")
        for ignored in (-100, 0, 1, -1)
        if dtype == "int64" or min(target) >= 0
    ]

    def told(library, functions, call):
        target, dtype, ignored = call
        x, w = library.arange(9.0).reshape(3, 3) / 3, library.tensor([0.5, 0.2, 0.7])
        target = library.tensor(target, dtype=getattr(library, dtype))
        try:
            found = getattr(functions, name)(x, target, w, ignore_index=ignored, reduction="none")
        except (IndexError, RuntimeError) as error:
            return type(error).__name__
        return [round(v, 5) for v in found.tolist()]

    for call in calls:
        expected = told(torch, torch.nn.functional, call)
        assert told(jtorch, F, call) == expected, call
        compiled = jtorch.compile(lambda *a, **o: getattr(F, name)(*a, **o))
        assert told(jtorch, types.SimpleNamespace(**{name: compiled}), call) == expected, call


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_targets_of_8_bits_and_no_rows(torch, name):
    for wrap in (lambda f: f, jtorch.compile):
        ours = wrap(lambda x, t: getattr(F, name)(x, t))
        scores, target = np.arange(9.0).reshape(3, 3) / 3, np.array([0, 1, 1], np.uint8)
        expected = getattr(torch.nn.functional, name)(torch.tensor(scores), torch.tensor(target))
        assert ours(jtorch.tensor(scores), jtorch.tensor(target)).item() == pytest.approx(expected.item())
        for shape in ((0, 0), (0, 3)):
            found = ours(jtorch.zeros(shape, requires_grad=True), jtorch.zeros(0, dtype=jtorch.int64))
            assert math.isnan(found.item())
            found.backward()


def test_one_example_may_have_its_class_in_a_row():
    for reduction in ("mean", "none"):  # PyTorch gives the number, too, but raises in its backward
        loss = F.cross_entropy(jtorch.zeros(3), jtorch.tensor([2]), reduction=reduction)
        assert loss.shape == () and loss.item() == pytest.approx(np.log(3))


@pytest.mark.parametrize(("act", "text"), ERRORS, ids=[text[:30] for _, text in ERRORS])
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_errors(torch, act, text):
    for library in (jtorch, torch):
        with pytest.raises((RuntimeError, ValueError), match=text):
            act(library.nn.functional, library)


# -- CTC ---------------------------------------------------------------------------------------------------


def _log_probs(steps, batch, classes):
    scores = np.random.default_rng(4).standard_normal((steps, batch, classes))
    return scores - np.log(np.exp(scores).sum(2, keepdims=True))


TARGETS = np.array([[1, 2, 2, 3], [4, 1, 1, 0], [2, 0, 0, 0]])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("lengths", [((9, 9, 9), (4, 3, 1)), ((9, 5, 3), (4, 2, 1)), ((9, 4, 2), (0, 3, 1))])
def test_ctc_equals_pytorch(torch, reduction, lengths):
    def call(functions, log_probs, targets, inputs, sizes):
        return functions.ctc_loss(log_probs, targets, inputs, sizes, reduction=reduction)

    arrays = [_log_probs(9, 3, 5), TARGETS, *map(np.array, lengths)]
    compare(call, F, torch.nn.functional, arrays, rtol=1e-11, atol=1e-12)


def test_ctc_in_other_forms(torch):
    flat = np.array([1, 2, 2, 4, 1, 3])

    def call(functions, log_probs, targets):
        return functions.ctc_loss(log_probs, targets, (9, 8, 7), (3, 2, 1), blank=0, reduction="none")

    compare(call, F, torch.nn.functional, [_log_probs(9, 3, 5), flat], rtol=1e-11, atol=1e-12)

    def alone(functions, log_probs, targets, inputs, sizes):
        return functions.ctc_loss(log_probs, targets, inputs, sizes, blank=4, reduction="none")

    arrays = [_log_probs(9, 1, 5)[:, 0], np.array([1, 0, 2]), np.array(9), np.array(3)]
    compare(alone, F, torch.nn.functional, arrays, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_of_what_cannot_be(torch, zero_infinity):
    def call(functions, log_probs, targets, inputs, sizes):
        return functions.ctc_loss(
            log_probs, targets, inputs, sizes, reduction="none", zero_infinity=zero_infinity
        )

    arrays = [_log_probs(9, 3, 5), TARGETS, np.array([3, 9, 9]), np.array([4, 3, 1])]
    compare(call, F, torch.nn.functional, arrays, rtol=1e-11, atol=1e-12)


def test_ctc_against_a_sum_over_all_alignments():
    log_probs = _log_probs(4, 1, 3)
    total = 0.0
    for path in np.ndindex(3, 3, 3, 3):
        merged = [c for k, c in enumerate(path) if k == 0 or c != path[k - 1]]
        if [c for c in merged if c] == [1, 2]:
            total += math.exp(sum(log_probs[t, 0, c] for t, c in enumerate(path)))
    loss = F.ctc_loss(jtorch.tensor(log_probs), jtorch.tensor([[1, 2]]), (4,), (2,), reduction="sum")
    assert loss.item() == pytest.approx(-math.log(total), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("mode", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
def test_ctc_in_16_bits_is_rounded_once(dtype, mode):
    """The logarithm that stands for what cannot be is infinite in float16: gradients were NaN."""
    scores = np.random.default_rng(0).standard_normal((5, 1, 4))
    half = jtorch.tensor(scores).log_softmax(-1).to(getattr(jtorch, dtype))

    def run(log_probs):
        log_probs = log_probs.detach().requires_grad_()
        target = jtorch.tensor([[1, 2]])
        loss = mode(lambda x: F.ctc_loss(x, target, jtorch.tensor([5]), jtorch.tensor([2])))(log_probs)
        loss.backward()
        return loss, log_probs.grad

    for found, wide in zip(run(half), run(half.float()), strict=True):
        assert found.dtype is half.dtype
        np.testing.assert_array_equal(
            found.float().detach().numpy(), wide.to(half.dtype).float().detach().numpy()
        )


def test_ctc_errors():
    log_probs = jtorch.tensor(_log_probs(9, 3, 5))
    targets = jtorch.tensor(TARGETS)
    with pytest.raises(RuntimeError, match="blank must be in label range"):
        F.ctc_loss(log_probs, targets, (9, 9, 9), (4, 3, 1), blank=5)
    with pytest.raises(RuntimeError, match="input_lengths must be of size batch_size"):
        F.ctc_loss(log_probs, targets, (9, 9), (4, 3, 1))
    with pytest.raises(
        RuntimeError, match="Expected input_lengths to have value at most 9, but got value 10"
    ):
        F.ctc_loss(log_probs, targets, (9, 9, 10), (4, 3, 1))
    with pytest.raises(RuntimeError, match="Expected tensor to have size 6 at dimension 0, but got size 5"):
        F.ctc_loss(log_probs, targets.reshape(-1)[:5], (9, 9, 9), (3, 2, 1))
    for compiled in (False, True):
        loss = jtorch.compile(F.ctc_loss) if compiled else F.ctc_loss
        counts = jtorch.tensor([4, 3, 1])
        loss(log_probs, targets, jtorch.tensor([9, 9, 8]), counts)
        with pytest.raises(RuntimeError, match="Expected input_lengths to have value at most 9"):
            loss(log_probs, targets, jtorch.tensor([9, 9, 10]), counts)


# -- distances ---------------------------------------------------------------------------------------------

ZEROED = X * (np.arange(6)[:, None] != 2)
DISTANCES = [
    ("pairwise_distance", [X, Y], {}),
    ("pairwise_distance", [X, Y[0]], {"p": 1.0, "keepdim": True}),
    ("pairwise_distance", [X, Y], {"p": 3.0, "eps": 0.0}),
    ("pairwise_distance", [X, Y], {"p": math.inf}),
    ("cosine_similarity", [X, Y], {}),
    ("cosine_similarity", [X, Y[:1]], {"dim": 0}),
    ("cosine_similarity", [X[0], Y[0]], {"dim": -1}),
    ("cosine_similarity", [X[0, 0], Y[0, 0]], {"dim": 0}),
    ("cosine_similarity", [ZEROED, Y], {"eps": 0.1}),
    ("normalize", [X], {}),
    ("normalize", [ZEROED], {"p": 3.0, "dim": 0}),
    ("normalize", [ZEROED], {"dim": (0, 1)}),
    ("normalize", [ZEROED], {}),
]


@pytest.mark.parametrize(
    ("name", "arrays", "options"), DISTANCES, ids=[f"{c[0]}-{k}" for k, c in enumerate(DISTANCES)]
)
def test_distances_equal_pytorch(torch, name, arrays, options):
    compare(lambda lib, *t: getattr(lib, name)(*t, **options), F, torch.nn.functional, arrays, **EXACT)


def test_bilinear(torch):
    weight, bias = RNG.standard_normal((5, 4, 3)), RNG.standard_normal(5)
    left, right = RNG.standard_normal((2, 6, 4)), RNG.standard_normal((2, 6, 3))

    def call(functions, *tensors):
        return functions.bilinear(*tensors)

    compare(call, F, torch.nn.functional, [left, right, weight, bias], **EXACT)
    compare(call, F, torch.nn.functional, [left, right, weight], **EXACT)
    with pytest.raises(RuntimeError, match="input2 size does not match weight size: got 4 but expected 3"):
        F.bilinear(*map(jtorch.tensor, (left, left, weight)))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_rows_that_are_ignored_may_hold_anything(bad, compiled):
    """A padded row whose first class is masked by -inf: no part of its 0 times infinity is in the loss."""
    scores, target = jtorch.tensor([[1.0, 2.0, 3.0], [bad, 1.0, bad]]), jtorch.tensor([2, -100])
    row = F.cross_entropy(scores[:1], target[:1]).item()
    for reduction, wanted in (("mean", row), ("sum", row), ("none", [row, 0.0])):
        for name, expected in (
            ("cross_entropy", wanted),
            ("nll_loss", [-3.0, 0.0] if reduction == "none" else -3.0),
        ):

            def loss(x, name=name, reduction=reduction):
                return getattr(F, name)(x, target, reduction=reduction)

            found = (jtorch.compile(loss, fullgraph=True) if compiled else loss)(scores)
            np.testing.assert_allclose(found.tolist(), expected, rtol=1e-6)
    hidden = scores.clone().requires_grad_()
    F.nll_loss(hidden, target).backward()
    assert hidden.grad.tolist() == [[0.0, 0.0, -1.0], [0.0, 0.0, 0.0]]
