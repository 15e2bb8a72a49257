"""Numbers that parameters hardly are: infinite, NaN, negative or too large ones, and singular matrices.

Each program runs in PyTorch, in eager mode and compiled: the same numbers, or the same error.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import jtorch

INF, NAN = math.inf, math.nan
ROOTS = (-INF, -0.0, 4.0, -4.0, NAN, INF, 0.0)


def _gradient(function: Any) -> Any:
    def program(L: Any) -> Any:
        x = L.tensor([[[1.0, 2.0], [2.0, 4.0]], [[2.0, 0.0], [0.0, 2.0]]], requires_grad=True)
        function(L, x).sum().backward()
        return x.grad

    return program


def _ctc(library: Any, *lengths: Any, targets: int = 2) -> Any:
    scores = library.zeros(3, 2, 4).log_softmax(2)
    return library.nn.functional.ctc_loss(scores, library.ones(2, targets).long(), *lengths)


VALUES = {
    "half ** .5": lambda L: L.tensor(ROOTS).half() ** 0.5,
    "half ** -.5": lambda L: L.tensor(ROOTS).half() ** -0.5,
    "one half ** .5": lambda L: L.tensor(-INF, dtype=L.float16) ** 0.5,
    "float ** .5": lambda L: L.tensor(ROOTS) ** 0.5,
    "logit": lambda L: L.tensor([0.25, 0.75]).logit(eps=1.0),
    "logit of crossed limits": lambda L: L.tensor([0.25, 0.75, -1.0, 2.0, NAN]).logit(eps=0.625),
    "logit without a limit": lambda L: L.tensor([0.5, -1.0, 2.0]).logit(eps=NAN),
    "logit below": lambda L: L.tensor([0.5, -1.0, 2.0]).logit(eps=-1.0),
    "zeta": lambda L: L.special.zeta(L.tensor([3.0, 1.0, INF, 2.0]), L.tensor([INF, INF, INF, 0.0])),
    "norm": lambda L: L.tensor([3.0, 4.0]).norm(p=1e39),
    "norm of small ones": lambda L: L.tensor([0.3, 0.4]).norm(p=-1e39),
    "norm of halves": lambda L: L.tensor([[3.0, 4.0]]).half().norm(1e39, 1),
    "norm of doubles": lambda L: L.tensor([3.0, 4.0]).double().norm(p=1e39),
    "vector_norm": lambda L: L.linalg.vector_norm(L.tensor([3.0, 4.0]), 1e39),
    "cdist": lambda L: L.cdist(L.ones(2, 2) * 3, L.zeros(1, 2), p=1e39),
    "pdist": lambda L: L.pdist(L.tensor([[3.0, 1.0], [5.0, 1.0]]), p=1e39),
    "dist": lambda L: L.dist(L.ones(2) * 3, L.zeros(2), p=1e39),
    "normalize": lambda L: L.nn.functional.normalize(L.eye(2) * 3, p=1e39),
    "pairwise_distance": lambda L: L.nn.functional.pairwise_distance(L.eye(2) * 3, L.ones(2, 2), p=1e39),
    "renorm": lambda L: L.eye(2).renorm(p=2, dim=0, maxnorm=0.5),
    "renorm_": lambda L: (L.eye(2) * 3).renorm_(2, 0, INF),
    "nan_to_num": lambda L: L.nan_to_num(L.tensor([NAN, INF, -INF]), 1e39),
    "slogdet": _gradient(lambda L, x: L.linalg.slogdet(x)[1]),
    "slogdet of one": _gradient(lambda L, x: L.linalg.slogdet(x)[1][1]),
    "sign of slogdet": lambda L: L.linalg.slogdet(L.ones(2, 2))[0],
    "logdet": _gradient(lambda L, x: L.logdet(x[0])),
    "huber_loss": lambda L: L.nn.functional.huber_loss(L.ones(2), L.zeros(2), delta=1e39),
    "smoothing below": lambda L: L.nn.functional.cross_entropy(
        L.eye(2), L.tensor([0, 1]), label_smoothing=-1.0
    ),
    "smoothing nan": lambda L: L.nn.functional.cross_entropy(L.eye(2), L.eye(2), label_smoothing=NAN),
    "ctc without input": lambda L: _ctc(L, (0, 3), (1, 1)),
    "Normal": lambda L: L.distributions.Normal(L.ones(2), 1e39).scale,
    "Normal of halves": lambda L: L.distributions.Normal(1e39, L.ones(2)).log_prob(L.ones(2)),
    "Laplace": lambda L: L.distributions.Laplace(0.0, -(10**39), validate_args=False).scale,
}
for _name in ("elu", "celu", "hardshrink", "softshrink", "softplus", "leaky_relu"):
    for _number in (INF, 1e30):
        VALUES[f"{_name} {_number}"] = lambda L, name=_name, k=_number: getattr(L.nn.functional, name)(
            L.tensor([1.0, 2.0]), k
        )
VALUES.pop("softshrink inf")

REFUSED = {
    "binary_cross_entropy": lambda L: L.nn.functional.binary_cross_entropy(L.ones(2) / 2, L.ones(2) * 1.5),
    "binary_cross_entropy below": lambda L: L.nn.BCELoss()(L.ones(2) / 2, -L.ones(2)),
    "binary_cross_entropy nan": lambda L: L.nn.BCELoss()(L.ones(2) / 2, L.ones(2) * NAN),
    "binary_cross_entropy both": lambda L: L.nn.BCELoss()(L.ones(2) * 2, L.ones(2) * 2),
    "ctc input": lambda L: _ctc(L, (4, 3), (1, 2)),
    "ctc input below": lambda L: _ctc(L, (3, -3), (1, 2)),
    "ctc target": lambda L: _ctc(L, (3, 3), (1, 3)),
    "ctc target below": lambda L: _ctc(L, (3, 3), (1, -1)),
    "batch_norm": lambda L: L.nn.functional.batch_norm(L.eye(2), None, None, training=True, eps=0.0),
    "batch_norm below": lambda L: L.nn.BatchNorm1d(2, eps=-1.0)(L.eye(2)),
    "batch_norm of given": lambda L: L.nn.functional.batch_norm(L.eye(2), L.zeros(2), L.ones(2), eps=-1.0),
    "huber_loss": lambda L: L.nn.functional.huber_loss(L.ones(2), L.zeros(2), delta=NAN),
    "smooth_l1_loss": lambda L: L.nn.functional.smooth_l1_loss(L.ones(2), L.zeros(2), beta=NAN),
    "smoothing": lambda L: L.nn.functional.cross_entropy(L.eye(2), L.eye(2), label_smoothing=1.5),
    "cdist": lambda L: L.cdist(L.ones(2, 2), L.zeros(1, 2), p=NAN),
    "pdist": lambda L: L.pdist(L.ones(2, 2), p=NAN),
    "isclose rtol": lambda L: L.isclose(L.ones(2), L.ones(2), rtol=NAN),
    "isclose atol": lambda L: L.isclose(L.ones(2), L.ones(2), atol=-1.0),
    "allclose atol": lambda L: L.allclose(L.ones(2), L.ones(2), atol=NAN),
    "histc min": lambda L: L.histc(L.ones(2), 2, NAN, 1),
    "histc max": lambda L: L.histc(L.ones(2), 2, 0, INF),
    "histc": lambda L: L.histc(L.ones(2), 2, 2, 1),
    "histogram": lambda L: L.histogram(L.ones(2), 2, range=(0.0, INF)),
    "histogram turned": lambda L: L.histogram(L.ones(2), 2, range=(2.0, 1.0)),
    "rrelu lower": lambda L: L.nn.functional.rrelu(L.ones(2), NAN, 1.0),
    "rrelu upper": lambda L: L.nn.functional.rrelu(L.ones(2), 0.1, INF, True),
    "rrelu large": lambda L: L.nn.functional.rrelu(L.ones(2), 0.1, 1e39, True),
    "uniform_ inf": lambda L: L.ones(2).uniform_(0, INF),
    "uniform_ nan": lambda L: L.ones(2).uniform_(NAN, 1),
    "uniform_ large": lambda L: L.ones(2).half().uniform_(0, 1e5),
    "uniform_ wide": lambda L: L.ones(2).uniform_(-3e38, 3e38),
    "init.uniform_": lambda L: L.nn.init.uniform_(L.ones(2), 0, INF),
    "init.normal_": lambda L: L.nn.init.normal_(L.ones(2), 0, NAN),
    "renorm p": lambda L: L.renorm(L.eye(2), 0, 0, 1),
    "renorm maxnorm": lambda L: L.renorm(L.eye(2), 2, 0, NAN),
    "renorm below": lambda L: L.eye(2).renorm_(2, 0, -1),
    "renorm dim": lambda L: L.eye(2).renorm(2, 5, 1),
    "elu": lambda L: L.nn.functional.elu(L.ones(2), 1e39),
    "elu of halves": lambda L: L.nn.functional.elu(L.ones(2).half(), 1e39),
    "elu_": lambda L: L.nn.functional.elu(L.ones(2), -1e39, inplace=True),
    "celu": lambda L: L.nn.functional.celu(L.ones(2), 1e39),
    "hardshrink": lambda L: L.nn.functional.hardshrink(L.ones(2), 1e39),
    "hardshrink of halves": lambda L: L.nn.functional.hardshrink(L.ones(2).half(), 1e6),
    "softshrink": lambda L: L.nn.functional.softshrink(L.ones(2), 1e39),
    "softshrink nan": lambda L: L.nn.functional.softshrink(L.ones(2).double(), NAN),
    "softplus": lambda L: L.nn.functional.softplus(L.ones(2), 1e39),
    "softplus threshold": lambda L: L.nn.functional.softplus(L.ones(2), 1.0, 1e39),
    "leaky_relu": lambda L: L.nn.functional.leaky_relu(L.ones(2), 1e39),
    "lerp": lambda L: L.lerp(L.ones(2), L.ones(2), 1e39),
    "lerp of integers": lambda L: L.lerp(L.tensor([1]), L.tensor([1]), 2),
    "lerp by integers": lambda L: L.lerp(L.tensor([1]), L.tensor([1]), L.tensor([2])),
    "lerp of two dtypes": lambda L: L.lerp(L.ones(2), L.ones(2).double(), 0.5),
    "logit": lambda L: L.logit(L.ones(2), 1e39),
    "hinge_embedding_loss": lambda L: L.nn.functional.hinge_embedding_loss(L.ones(2), L.ones(2), margin=1e39),
    "multi_margin_loss": lambda L: L.nn.functional.multi_margin_loss(L.eye(2), L.tensor([0, 1]), margin=1e39),
    "cosine_similarity": lambda L: L.cosine_similarity(L.eye(2), L.eye(2), eps=NAN),
    "dropout": lambda L: L.nn.functional.dropout(L.ones(2), NAN),
    "dropout above": lambda L: L.nn.functional.dropout(L.ones(2), 2.0),
    "Dropout": lambda L: L.nn.Dropout(NAN)(L.ones(2)),
    "T.dropout": lambda L: L.dropout(L.ones(2), 2.0, True),
    "index_add": lambda L: L.ones(3).index_add(0, L.tensor([5]), L.ones(1)),
    "index_add of rows": lambda L: L.ones(3, 2).index_add(0, L.tensor([5]), L.ones(1, 2)),
    "index_add alpha": lambda L: L.ones(3).index_add(0, L.tensor([0]), L.ones(1), alpha=1e39),
    "index_select": lambda L: L.ones(3, 2).index_select(1, L.tensor([5])),
    "index_select of rows": lambda L: L.ones(3, 2).index_select(0, L.tensor([-1])),
    "embedding_bag": lambda L: L.nn.functional.embedding_bag(L.tensor([[5]]), L.ones(3, 2)),
}


def _outcome(program: Any, library: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of what is infinite
        try:
            found = program(library)
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
            return f"{type(error).__name__}: {str(error).partition(' (at ')[0]}"
    return str(found.dtype).rpartition(".")[2], np.asarray(found.detach())


@pytest.mark.slow
@pytest.mark.parametrize("programs", ["VALUES", "REFUSED"])
def test_it_is_what_pytorch_makes_of_it(programs: str) -> None:
    torch = pytest.importorskip("torch")
    failures = []
    for name, program in globals()[programs].items():
        want = _outcome(program, torch)
        compiled = jtorch.compile(lambda L, program=program: program(L))
        for way, run in (("eager", program), ("compiled", compiled)):
            got = _outcome(run, jtorch)
            same = want == got if isinstance(want, str) or isinstance(got, str) else _same(want, got)
            if not same:
                failures.append(f"{name}, {way}: {got}, want {want}")
    assert not failures, "\n".join(failures)


def _same(want: tuple[str, np.ndarray], got: tuple[str, np.ndarray]) -> bool:
    return want[0] == got[0] and np.allclose(got[1], want[1], rtol=1e-6, atol=0, equal_nan=True)


REDUCTIONS = [
    "sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "max", "min", "any", "all", "std", "var",
    "norm", "logsumexp", "median", "nanmedian", "mode", "nansum", "nanmean", "kthvalue",
]  # fmt: skip


def test_keepdim_is_a_bool() -> None:
    x = jtorch.eye(2)
    for name in REDUCTIONS:
        first = (1,) if name == "kthvalue" else ()
        for value in (1, 0, None, "a", np.bool_(True)):
            with pytest.raises(TypeError, match="argument 'keepdim' must be bool, not "):
                getattr(x, name)(*first, dim=0, keepdim=value)
        kept = getattr(x, name)(*first, dim=0, keepdim=True)
        assert (kept[0] if isinstance(kept, tuple) else kept).shape == (1, 2), name
    with pytest.raises(TypeError, match="argument 'keepdim' must be bool, not int"):
        x.sum(keepdim=1)
    assert x.sum(keepdim=True).shape == (1, 1)
