"""``torch.nn.functional``'s functions under their names, one file a family.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html
"""

import sys

from jtorch.core import watch
from jtorch.nn.functional.activation import (
    celu,
    celu_,
    elu,
    elu_,
    gelu,
    glu,
    gumbel_softmax,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    selu,
    selu_,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    threshold,
    threshold_,
)
from jtorch.nn.functional.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from jtorch.nn.functional.attention import (
    _canonical_mask as _canonical_mask,
)
from jtorch.nn.functional.attention import (
    multi_head_attention_forward as multi_head_attention_forward,
)
from jtorch.nn.functional.attention import (
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from jtorch.nn.functional.class_losses import cross_entropy, nll_loss
from jtorch.nn.functional.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from jtorch.nn.functional.ctc import ctc_loss
from jtorch.nn.functional.distance import (
    cosine_similarity,
    normalize,
    pairwise_distance,
    pdist,
)
from jtorch.nn.functional.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from jtorch.nn.functional.embedding import (
    embedding as embedding,
)
from jtorch.nn.functional.embedding import (
    embedding_bag as embedding_bag,
)
from jtorch.nn.functional.embedding import (
    one_hot as one_hot,
)
from jtorch.nn.functional.folding import fold, unfold
from jtorch.nn.functional.fractional_pooling import (
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
)
from jtorch.nn.functional.linear import (
    bilinear,
    linear,
)
from jtorch.nn.functional.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from jtorch.nn.functional.margin_loss import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from jtorch.nn.functional.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    rms_norm,
)
from jtorch.nn.functional.padding import (
    pad,
)
from jtorch.nn.functional.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
)
from jtorch.nn.functional.sampling import (
    affine_grid,
    grid_sample,
)
from jtorch.nn.functional.shuffling import (
    channel_shuffle,
    native_channel_shuffle,
    pixel_shuffle,
    pixel_unshuffle,
)
from jtorch.nn.functional.unpooling import max_unpool1d, max_unpool2d, max_unpool3d
from jtorch.nn.functional.upsampling import (
    interpolate,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)


def __getattr__(name: str) -> object:
    known = ", ".join(sorted(k for k, v in globals().items() if callable(v) and not k.startswith("_")))
    raise AttributeError(f"jtorch.nn.functional has no {name!r}; it offers {known}")


sys.modules[__name__].__class__ = watch.TellingModule  # layers call these by name
