"""Calls whose result dtypes under autocast are PyTorch's: of its classes, and of much that has none.

Each is ``call(L, c)`` for a library ``L``, where ``c`` gives the floating-point arguments their dtype.
"""

from __future__ import annotations

from typing import Any


def _positive(L: Any) -> Any:
    a = L.randn(4, 4)
    return a @ a.T + 4 * L.eye(4)


CALLS = {
    "conv1d": lambda L, c: L.nn.functional.conv1d(c(L.randn(1, 2, 5)), c(L.randn(3, 2, 2)), c(L.randn(3))),
    "conv2d": lambda L, c: L.nn.functional.conv2d(
        c(L.randn(1, 2, 5, 5)), c(L.randn(3, 2, 2, 2)), c(L.randn(3))
    ),
    "conv3d": lambda L, c: L.nn.functional.conv3d(c(L.randn(1, 2, 5, 5, 5)), c(L.randn(3, 2, 2, 2, 2))),
    "conv_transpose1d": lambda L, c: L.nn.functional.conv_transpose1d(
        c(L.randn(1, 2, 5)), c(L.randn(2, 3, 2))
    ),
    "conv_transpose2d": lambda L, c: L.nn.functional.conv_transpose2d(
        c(L.randn(1, 2, 5, 5)), c(L.randn(2, 3, 2, 2))
    ),
    "conv_transpose3d": lambda L, c: L.nn.functional.conv_transpose3d(
        c(L.randn(1, 2, 5, 5, 5)), c(L.randn(2, 3, 2, 2, 2))
    ),
    "mm": lambda L, c: L.mm(c(L.randn(2, 3)), c(L.randn(3, 2))),
    "bmm": lambda L, c: L.bmm(c(L.randn(2, 2, 3)), c(L.randn(2, 3, 2))),
    "addmm": lambda L, c: L.addmm(c(L.randn(2, 2)), c(L.randn(2, 3)), c(L.randn(3, 2))),
    "baddbmm": lambda L, c: L.baddbmm(c(L.randn(2, 2, 2)), c(L.randn(2, 2, 3)), c(L.randn(2, 3, 2))),
    "addbmm": lambda L, c: L.addbmm(c(L.randn(2, 2)), c(L.randn(2, 2, 3)), c(L.randn(2, 3, 2))),
    "linear": lambda L, c: L.nn.functional.linear(c(L.randn(2, 3)), c(L.randn(2, 3)), c(L.randn(2))),
    "mv": lambda L, c: L.mv(c(L.randn(2, 3)), c(L.randn(3))),
    "dot": lambda L, c: L.dot(c(L.randn(3)), c(L.randn(3))),
    "matmul 1 1": lambda L, c: L.matmul(c(L.randn(3)), c(L.randn(3))),
    "matmul 2 1": lambda L, c: L.matmul(c(L.randn(2, 3)), c(L.randn(3))),
    "matmul 1 2": lambda L, c: L.matmul(c(L.randn(3)), c(L.randn(3, 2))),
    "addmv": lambda L, c: L.addmv(c(L.randn(2)), c(L.randn(2, 3)), c(L.randn(3))),
    "addr": lambda L, c: L.addr(c(L.randn(2, 3)), c(L.randn(2)), c(L.randn(3))),
    "einsum": lambda L, c: L.einsum("ij,jk->ik", c(L.randn(2, 3)), c(L.randn(3, 2))),
    "einsum inner": lambda L, c: L.einsum("i,i->", c(L.randn(3)), c(L.randn(3))),
    "einsum outer": lambda L, c: L.einsum("i,j->ij", c(L.randn(3)), c(L.randn(3))),
    "tensordot": lambda L, c: L.tensordot(c(L.randn(2, 3)), c(L.randn(3, 2)), 1),
    "inner": lambda L, c: L.inner(c(L.randn(3)), c(L.randn(3))),
    "inner of matrices": lambda L, c: L.inner(c(L.randn(2, 3)), c(L.randn(2, 3))),
    "chain_matmul": lambda L, c: L.chain_matmul(c(L.randn(2, 3)), c(L.randn(3, 2))),
    "multi_dot": lambda L, c: L.linalg.multi_dot([c(L.randn(2, 3)), c(L.randn(3, 2)), c(L.randn(2, 2))]),
    "matrix_power": lambda L, c: L.matrix_power(c(L.randn(3, 3)), 3),
    "matrix_power negative": lambda L, c: L.matrix_power(c(_positive(L)), -2),
    "linalg.vecdot": lambda L, c: L.linalg.vecdot(c(L.randn(2, 3)), c(L.randn(2, 3))),
    "outer": lambda L, c: L.outer(c(L.randn(2)), c(L.randn(3))),
    "bilinear": lambda L, c: L.nn.functional.bilinear(
        c(L.randn(2, 3)), c(L.randn(2, 4)), c(L.randn(5, 3, 4)), c(L.randn(5))
    ),
    "scaled_dot_product_attention": lambda L, c: L.nn.functional.scaled_dot_product_attention(
        c(L.randn(2, 3, 4)), c(L.randn(2, 3, 4)), c(L.randn(2, 3, 4)), c(L.randn(3, 3))
    ),
    "prelu": lambda L, c: L.nn.functional.prelu(c(L.randn(2, 3)), c(L.randn(1))),
    "avg_pool1d": lambda L, c: L.nn.functional.avg_pool1d(c(L.randn(1, 2, 4)), 2),
    "avg_pool2d": lambda L, c: L.nn.functional.avg_pool2d(c(L.randn(1, 2, 4, 4)), 2),
    "avg_pool3d": lambda L, c: L.nn.functional.avg_pool3d(c(L.randn(1, 2, 4, 4, 4)), 2),
    "max_pool3d": lambda L, c: L.nn.functional.max_pool3d(c(L.randn(1, 2, 4, 4, 4)), 2),
    "max_pool3d with indices": lambda L, c: L.nn.functional.max_pool3d(
        c(L.randn(1, 2, 4, 4, 4)), 2, return_indices=True
    )[0],
    "max_pool2d": lambda L, c: L.nn.functional.max_pool2d(c(L.randn(1, 2, 4, 4)), 2),
    "adaptive_avg_pool1d": lambda L, c: L.nn.functional.adaptive_avg_pool1d(c(L.randn(1, 2, 4)), 2),
    "adaptive_avg_pool2d": lambda L, c: L.nn.functional.adaptive_avg_pool2d(c(L.randn(1, 2, 4, 4)), 2),
    "adaptive_avg_pool3d": lambda L, c: L.nn.functional.adaptive_avg_pool3d(c(L.randn(1, 2, 4, 4, 4)), 2),
    "adaptive_max_pool2d": lambda L, c: L.nn.functional.adaptive_max_pool2d(c(L.randn(1, 2, 4, 4)), 2),
    "adaptive_max_pool3d": lambda L, c: L.nn.functional.adaptive_max_pool3d(c(L.randn(1, 2, 4, 4, 4)), 2),
    "max_unpool2d": lambda L, c: L.nn.functional.max_unpool2d(
        c(L.randn(1, 1, 2, 2)), L.tensor([[[[0, 2], [8, 10]]]]), 2
    ),
    "max_unpool1d": lambda L, c: L.nn.functional.max_unpool1d(c(L.randn(1, 1, 2)), L.tensor([[[0, 2]]]), 2),
    "max_unpool3d": lambda L, c: L.nn.functional.max_unpool3d(
        c(L.randn(1, 1, 1, 1, 1)), L.tensor([[[[[0]]]]]), 2
    ),
    "lp_pool2d": lambda L, c: L.nn.functional.lp_pool2d(c(L.randn(1, 2, 4, 4)), 2, 2),
    "lp_pool3d": lambda L, c: L.nn.functional.lp_pool3d(c(L.randn(1, 2, 4, 4, 4)), 2, 2),
    "binary_cross_entropy": lambda L, c: L.nn.functional.binary_cross_entropy(c(L.rand(3)), c(L.rand(3))),
    "binary_cross_entropy_with_logits": lambda L, c: L.nn.functional.binary_cross_entropy_with_logits(
        c(L.randn(3)), c(L.rand(3)), c(L.rand(3))
    ),
    "grid_sample": lambda L, c: L.nn.functional.grid_sample(
        c(L.randn(1, 1, 3, 3)), c(L.randn(1, 2, 2, 2)), align_corners=False
    ),
    "grid_sample of volumes": lambda L, c: L.nn.functional.grid_sample(
        c(L.randn(1, 1, 3, 3, 3)), c(L.randn(1, 2, 2, 2, 3)), align_corners=False
    ),
    "affine_grid": lambda L, c: L.nn.functional.affine_grid(
        c(L.randn(1, 2, 3)), (1, 1, 2, 2), align_corners=False
    ),
    "polar": lambda L, c: L.polar(c(L.randn(3)), c(L.randn(3))),
    "prod": lambda L, c: L.prod(c(L.randn(3))),
    "prod dim": lambda L, c: L.prod(c(L.randn(3)), 0),
    "prod dtype": lambda L, c: L.prod(c(L.randn(3)), dtype=L.float16),
    "cumprod": lambda L, c: L.cumprod(c(L.randn(3)), 0),
    "quantile": lambda L, c: L.quantile(c(L.randn(5)), 0.5),
    "quantile of a tensor": lambda L, c: L.quantile(c(L.randn(5)), c(L.tensor([0.5]))),
    "nanquantile": lambda L, c: L.nanquantile(c(L.randn(5)), 0.5),
    "median": lambda L, c: L.median(c(L.randn(5))),
    "cdist": lambda L, c: L.cdist(c(L.randn(2, 3)), c(L.randn(2, 3))),
    "trace": lambda L, c: L.trace(c(L.randn(3, 3))),
    "view_as_complex": lambda L, c: L.view_as_complex(c(L.randn(3, 2))),
    "cholesky": lambda L, c: L.cholesky(c(_positive(L))),
    "cholesky_inverse": lambda L, c: L.cholesky_inverse(c(L.linalg.cholesky(_positive(L)))),
    "cholesky_solve": lambda L, c: L.cholesky_solve(c(L.randn(4, 2)), c(L.linalg.cholesky(_positive(L)))),
    "inverse": lambda L, c: L.inverse(c(_positive(L))),
    "linalg.inv": lambda L, c: L.linalg.inv(c(_positive(L))),
    "pinverse": lambda L, c: L.pinverse(c(L.randn(4, 3))),
    "linalg.pinv": lambda L, c: L.linalg.pinv(c(L.randn(4, 3))),
    "cond": lambda L, c: L.linalg.cond(c(_positive(L))),
    "cond 1": lambda L, c: L.linalg.cond(c(_positive(L)), 1),
    "matrix_rank": lambda L, c: L.linalg.matrix_rank(c(_positive(L))),
    "solve": lambda L, c: L.linalg.solve(c(_positive(L)), c(L.randn(4))),
    "solve_ex": lambda L, c: L.linalg.solve_ex(c(_positive(L)), c(L.randn(4)))[0],
    "linalg.cholesky": lambda L, c: L.linalg.cholesky(c(_positive(L))),
    "cholesky_ex": lambda L, c: L.linalg.cholesky_ex(c(_positive(L)))[0],
    "svdvals": lambda L, c: L.linalg.svdvals(c(_positive(L))),
    "eigvalsh": lambda L, c: L.linalg.eigvalsh(c(_positive(L))),
    "eigh": lambda L, c: L.linalg.eigh(c(_positive(L)))[0],
    "linalg.svd": lambda L, c: L.linalg.svd(c(_positive(L)))[0],
    "svd": lambda L, c: L.svd(c(_positive(L)))[0],
    "linalg.qr": lambda L, c: L.linalg.qr(c(_positive(L)))[0],
    "qr": lambda L, c: L.qr(c(_positive(L)))[0],
    "solve_triangular": lambda L, c: L.linalg.solve_triangular(c(_positive(L)), c(L.randn(4, 2)), upper=True),
    "lstsq": lambda L, c: L.linalg.lstsq(c(L.randn(4, 3)), c(L.randn(4, 2)))[0],
    "inv_ex": lambda L, c: L.linalg.inv_ex(c(_positive(L)))[0],
    "tensorinv": lambda L, c: L.linalg.tensorinv(c(_positive(L)), 1),
    "tensorsolve": lambda L, c: L.linalg.tensorsolve(c(_positive(L)), c(L.randn(4))),
    "det": lambda L, c: L.linalg.det(c(_positive(L))),
    "slogdet": lambda L, c: L.linalg.slogdet(c(_positive(L)))[1],
    "logdet": lambda L, c: L.logdet(c(_positive(L))),
    "pad reflect 1": lambda L, c: L.nn.functional.pad(c(L.randn(1, 2, 4)), (1, 1), "reflect"),
    "pad reflect 2": lambda L, c: L.nn.functional.pad(c(L.randn(1, 2, 4, 4)), (1, 1, 1, 1), "reflect"),
    "pad reflect 3": lambda L, c: L.nn.functional.pad(c(L.randn(1, 2, 4, 4, 4)), (1,) * 6, "reflect"),
    "pad replicate 1": lambda L, c: L.nn.functional.pad(c(L.randn(1, 2, 4)), (1, 1), "replicate"),
    "pad replicate 2": lambda L, c: L.nn.functional.pad(c(L.randn(1, 2, 4, 4)), (1,) * 4, "replicate"),
    "pad replicate 3": lambda L, c: L.nn.functional.pad(c(L.randn(1, 2, 4, 4, 4)), (1,) * 6, "replicate"),
    "pad circular": lambda L, c: L.nn.functional.pad(c(L.randn(1, 2, 4)), (1, 1), "circular"),
    "mse_loss": lambda L, c: L.nn.functional.mse_loss(c(L.randn(3)), c(L.randn(3))),
    "cosine_embedding_loss": lambda L, c: L.nn.functional.cosine_embedding_loss(
        c(L.randn(3, 4)), c(L.randn(3, 4)), L.ones(3)
    ),
    "nll_loss": lambda L, c: L.nn.functional.nll_loss(c(L.randn(3, 4)), L.tensor([0, 1, 2])),
    "nll_loss of images": lambda L, c: L.nn.functional.nll_loss(
        c(L.randn(1, 4, 2, 2)), L.ones(1, 2, 2, dtype=L.long)
    ),
    "hinge_embedding_loss": lambda L, c: L.nn.functional.hinge_embedding_loss(c(L.randn(3)), c(L.ones(3))),
    "poisson_nll_loss": lambda L, c: L.nn.functional.poisson_nll_loss(c(L.randn(3)), c(L.randn(3))),
    "smooth_l1_loss": lambda L, c: L.nn.functional.smooth_l1_loss(c(L.randn(3)), c(L.randn(3))),
    "cross_entropy": lambda L, c: L.nn.functional.cross_entropy(c(L.randn(3, 4)), L.tensor([0, 1, 2])),
    "l1_loss": lambda L, c: L.nn.functional.l1_loss(c(L.randn(3)), c(L.randn(3))),
    "huber_loss": lambda L, c: L.nn.functional.huber_loss(c(L.randn(3)), c(L.randn(3))),
    "margin_ranking_loss": lambda L, c: L.nn.functional.margin_ranking_loss(
        c(L.randn(3)), c(L.randn(3)), c(L.ones(3))
    ),
    "soft_margin_loss": lambda L, c: L.nn.functional.soft_margin_loss(c(L.randn(3)), c(L.ones(3))),
    "triplet_margin_loss": lambda L, c: L.nn.functional.triplet_margin_loss(
        c(L.randn(3, 4)), c(L.randn(3, 4)), c(L.randn(3, 4))
    ),
    "multi_margin_loss": lambda L, c: L.nn.functional.multi_margin_loss(
        c(L.randn(3, 4)), L.tensor([0, 1, 2])
    ),
    "multilabel_margin_loss": lambda L, c: L.nn.functional.multilabel_margin_loss(
        c(L.randn(3, 4)), L.tensor([[0, 1, -1, -1]] * 3)
    ),
    "multilabel_soft_margin_loss": lambda L, c: L.nn.functional.multilabel_soft_margin_loss(
        c(L.randn(3, 4)), c(L.rand(3, 4))
    ),
    "ctc_loss": lambda L, c: L.nn.functional.ctc_loss(
        c(L.randn(5, 1, 4).log_softmax(-1)), L.tensor([[1, 2]]), (5,), (2,)
    ),
    "kl_div": lambda L, c: L.nn.functional.kl_div(c(L.randn(3)), c(L.rand(3))),
    "gaussian_nll_loss": lambda L, c: L.nn.functional.gaussian_nll_loss(
        c(L.randn(3)), c(L.randn(3)), c(L.rand(3))
    ),
    "triplet_margin_with_distance_loss": lambda L, c: L.nn.functional.triplet_margin_with_distance_loss(
        c(L.randn(3, 4)), c(L.randn(3, 4)), c(L.randn(3, 4))
    ),
    "stack": lambda L, c: L.stack([c(L.randn(2)), L.randn(2)]),
    "cat": lambda L, c: L.cat([c(L.randn(2)), L.randn(2)]),
    "index_copy": lambda L, c: L.index_copy(c(L.randn(3)), 0, L.tensor([1]), L.randn(1)),
    "hstack": lambda L, c: L.hstack([c(L.randn(2)), L.randn(2)]),
    "softmax": lambda L, c: c(L.randn(3)).softmax(0),
    "norm": lambda L, c: c(L.randn(3)).norm(),
    "sum": lambda L, c: c(L.randn(3)).sum(),
    "exp": lambda L, c: c(L.randn(3)).exp(),
    "layer_norm": lambda L, c: L.nn.functional.layer_norm(c(L.randn(2, 3)), (3,)),
    "group_norm": lambda L, c: L.nn.functional.group_norm(c(L.randn(2, 4, 3)), 2),
    "cosine_similarity": lambda L, c: L.nn.functional.cosine_similarity(c(L.randn(2, 3)), c(L.randn(2, 3))),
    "pairwise_distance": lambda L, c: L.nn.functional.pairwise_distance(c(L.randn(2, 3)), c(L.randn(2, 3))),
    "cov": lambda L, c: L.cov(c(L.randn(3, 4))),
    "corrcoef": lambda L, c: L.corrcoef(c(L.randn(3, 4))),
    "LSTM": lambda L, c: L.nn.LSTM(3, 4)(c(L.randn(5, 2, 3)))[0],
    "GRU": lambda L, c: L.nn.GRU(3, 4)(c(L.randn(5, 2, 3)))[0],
    "RNN": lambda L, c: L.nn.RNN(3, 4)(c(L.randn(5, 2, 3)))[0],
    "LSTMCell": lambda L, c: L.nn.LSTMCell(3, 4)(c(L.randn(2, 3)))[0],
    "GRUCell": lambda L, c: L.nn.GRUCell(3, 4)(c(L.randn(2, 3))),
    "RNNCell": lambda L, c: L.nn.RNNCell(3, 4)(c(L.randn(2, 3))),
    "MultiheadAttention": lambda L, c: L.nn.MultiheadAttention(4, 2)(
        c(L.randn(3, 2, 4)), c(L.randn(3, 2, 4)), c(L.randn(3, 2, 4))
    )[0],
    "TransformerEncoderLayer": lambda L, c: L.nn.TransformerEncoderLayer(4, 2, 8)(c(L.randn(3, 2, 4))),
    "embedding": lambda L, c: L.nn.functional.embedding(L.tensor([1]), c(L.randn(3, 2))),
    "embedding_bag": lambda L, c: L.nn.functional.embedding_bag(L.tensor([[1]]), c(L.randn(3, 2))),
    "interpolate": lambda L, c: L.nn.functional.interpolate(
        c(L.randn(1, 1, 4, 4)), scale_factor=2.0, mode="bilinear"
    ),
    "add": lambda L, c: c(L.randn(3)) + L.randn(3),
    "kron": lambda L, c: L.kron(c(L.randn(2, 2)), c(L.randn(2, 2))),
    "vander": lambda L, c: L.vander(c(L.randn(3))),
    "trapezoid": lambda L, c: L.trapezoid(c(L.randn(3))),
}

# more that autocast of CUDA devices has in its lists, and what is near to it
ON_DEVICE = CALLS | {
    "renorm": lambda L, c: L.renorm(c(L.rand(3, 4)), 2, 0, 1.0),
    "dist": lambda L, c: L.dist(c(L.rand(3)), c(L.rand(3)), 1),
    "sum dtype": lambda L, c: c(L.rand(3)).sum(dtype=L.float16),
    "sum dim dtype": lambda L, c: c(L.rand(3, 2)).sum(0, dtype=L.float64),
    "softmax dtype": lambda L, c: L.softmax(c(L.rand(3)), 0, dtype=L.float16),
    "functional softmax dtype": lambda L, c: L.nn.functional.softmax(c(L.rand(3)), 0, dtype=L.float16),
    "functional log_softmax dtype": lambda L, c: L.nn.functional.log_softmax(
        c(L.rand(3)), 0, dtype=L.bfloat16
    ),
    "softmax method dtype": lambda L, c: c(L.rand(3)).softmax(0, dtype=L.float16),
    "softmin": lambda L, c: L.nn.functional.softmin(c(L.rand(3)), 0),
    "cumsum dtype": lambda L, c: L.cumsum(c(L.rand(3)), 0, dtype=L.float16),
    "cumprod dtype": lambda L, c: L.cumprod(c(L.rand(3)), 0, dtype=L.float16),
    "norm dtype": lambda L, c: L.norm(c(L.rand(3)), 2, dtype=L.float16),
    "norm dim dtype": lambda L, c: L.norm(c(L.rand(3, 3)), 2, 0, dtype=L.float16),
    "vector_norm dtype": lambda L, c: L.linalg.vector_norm(c(L.rand(3)), dtype=L.float16),
    "matrix_norm dtype": lambda L, c: L.linalg.matrix_norm(c(L.rand(3, 3)), dtype=L.float32),
    "matrix_norm": lambda L, c: L.linalg.matrix_norm(c(L.rand(3, 3))),
    "matrix_norm nuclear": lambda L, c: L.linalg.matrix_norm(c(L.rand(3, 3)), "nuc"),
    "norm nuclear": lambda L, c: L.norm(c(L.rand(3, 3)), "nuc"),
    "scatter_add": lambda L, c: L.scatter_add(c(L.zeros(3)), 0, L.tensor([0, 1]), L.rand(2)),
    "scatter_add same": lambda L, c: L.scatter_add(c(L.zeros(3)), 0, L.tensor([0, 1]), c(L.rand(2))),
    "index_put": lambda L, c: L.index_put(c(L.zeros(3)), (L.tensor([0, 1]),), L.rand(2)),
    "index_put same": lambda L, c: L.index_put(c(L.zeros(3)), (L.tensor([0, 1]),), c(L.rand(2))),
    "cross": lambda L, c: L.cross(c(L.rand(3, 3)), L.rand(3, 3)),
    "addcmul": lambda L, c: L.addcmul(c(L.rand(3)), L.rand(3), L.rand(3)),
    "addcdiv": lambda L, c: L.addcdiv(c(L.rand(3)), c(L.rand(3)), c(L.rand(3))),
    "atan2 mixed": lambda L, c: L.atan2(c(L.rand(3)), L.rand(3)),
    "pow 2.5": lambda L, c: c(L.rand(3)).pow(2.5),
    "exp_": lambda L, c: c(L.rand(3)).exp_(),
    "pow_": lambda L, c: c(L.rand(3)).pow_(2),
    "interpolate nearest": lambda L, c: L.nn.functional.interpolate(c(L.rand(1, 1, 4)), scale_factor=2),
    "interpolate area": lambda L, c: L.nn.functional.interpolate(
        c(L.rand(1, 1, 4)), scale_factor=2, mode="area"
    ),
    "interpolate bicubic": lambda L, c: L.nn.functional.interpolate(
        c(L.rand(1, 1, 4, 4)), scale_factor=2, mode="bicubic"
    ),
    "normalize": lambda L, c: L.nn.functional.normalize(c(L.rand(3, 3))),
    "instance_norm": lambda L, c: L.nn.functional.instance_norm(c(L.rand(1, 2, 3))),
    "batch_norm": lambda L, c: L.nn.functional.batch_norm(
        c(L.rand(3, 2)), L.zeros(2), L.ones(2), training=True
    ),
    "rms_norm weight": lambda L, c: L.nn.functional.rms_norm(c(L.rand(3, 2)), (2,), L.ones(2)),
    "layer_norm weight": lambda L, c: L.nn.functional.layer_norm(c(L.rand(3, 2)), (2,), L.ones(2), L.ones(2)),
    "gumbel_softmax": lambda L, c: L.nn.functional.gumbel_softmax(c(L.rand(3, 2))),
    "std": lambda L, c: c(L.rand(3)).std(),
    "baddbmm of two dtypes": lambda L, c: L.baddbmm(c(L.rand(1, 2, 2)), c(L.rand(1, 2, 2)), L.rand(1, 2, 2)),
    "chain_matmul 3": lambda L, c: L.chain_matmul(c(L.rand(2, 2)), c(L.rand(2, 2)), c(L.rand(2, 2))),
    "matmul batch": lambda L, c: c(L.rand(2, 2, 2)) @ c(L.rand(2)),
    "var_mean": lambda L, c: L.var_mean(c(L.rand(2, 2)))[0],
    "logsumexp": lambda L, c: L.logsumexp(c(L.rand(2, 2)), 0),
    "sum of dims": lambda L, c: L.sum(c(L.rand(2, 2)), (0, 1)),
    "sum of integers": lambda L, c: L.sum(L.ones(2, 2, dtype=L.int32), (0, 1)),
    "exp of integers": lambda L, c: L.exp(L.ones(2, 2, dtype=L.int32)),
    "causal attention": lambda L, c: L.nn.functional.scaled_dot_product_attention(
        c(L.rand(1, 2, 2)), c(L.rand(1, 2, 2)), c(L.rand(1, 2, 2)), is_causal=True
    ),
    "pixel_shuffle": lambda L, c: L.nn.functional.pixel_shuffle(c(L.rand(1, 4, 2, 2)), 2),
    "local_response_norm": lambda L, c: L.nn.functional.local_response_norm(c(L.rand(1, 4, 2, 2)), 2),
    "reciprocal": lambda L, c: 1 / c(L.rand(3) + 1),
    "square": lambda L, c: c(L.rand(3)) ** 2,
    "pow of 2": lambda L, c: 2 ** c(L.rand(3)),
    "acos": lambda L, c: L.acos(c(L.rand(3))),
    "asin": lambda L, c: L.asin(c(L.rand(3))),
    "cosh": lambda L, c: L.cosh(c(L.rand(3))),
    "sinh": lambda L, c: L.sinh(c(L.rand(3))),
    "tan": lambda L, c: L.tan(c(L.rand(3))),
    "erfinv": lambda L, c: L.erfinv(c(L.rand(3))),
    "expm1": lambda L, c: L.expm1(c(L.rand(3))),
    "log": lambda L, c: L.log(c(L.rand(3))),
    "log10": lambda L, c: L.log10(c(L.rand(3))),
    "log2": lambda L, c: L.log2(c(L.rand(3))),
    "log1p": lambda L, c: L.log1p(c(L.rand(3))),
    "rsqrt": lambda L, c: L.rsqrt(c(L.rand(3))),
    "pow": lambda L, c: L.pow(c(L.rand(3)), c(L.rand(3))),
    "softplus": lambda L, c: L.nn.functional.softplus(c(L.rand(3))),
    "log_softmax": lambda L, c: L.log_softmax(c(L.rand(3)), 0),
    "cumsum": lambda L, c: L.cumsum(c(L.rand(3)), 0),
    "pdist": lambda L, c: L.pdist(c(L.rand(3, 2))),
    "vdot": lambda L, c: L.vdot(c(L.rand(3)), c(L.rand(3))),
    "vector_norm": lambda L, c: L.linalg.vector_norm(c(L.rand(3))),
    "rms_norm": lambda L, c: L.nn.functional.rms_norm(c(L.rand(3, 2)), (2,)),
    "upsample_linear1d": lambda L, c: L.nn.functional.interpolate(c(L.rand(1, 1, 4)), 6, mode="linear"),
    "upsample_trilinear3d": lambda L, c: L.nn.functional.interpolate(
        c(L.rand(1, 1, 2, 2, 2)), 3, mode="trilinear"
    ),
    "atan2": lambda L, c: L.atan2(c(L.rand(3)), c(L.rand(3))),
    "cos": lambda L, c: L.cos(c(L.rand(3))),
    "sqrt": lambda L, c: L.sqrt(c(L.rand(3))),
    "sigmoid": lambda L, c: L.sigmoid(c(L.rand(3))),
    "gelu": lambda L, c: L.nn.functional.gelu(c(L.rand(3))),
    "mean": lambda L, c: c(L.rand(3)).mean(),
    "nansum": lambda L, c: L.nansum(c(L.rand(3))),
    "nanmean": lambda L, c: L.nanmean(c(L.rand(3))),
    "ldexp": lambda L, c: L.ldexp(c(L.rand(3)), c(L.rand(3))),
}
