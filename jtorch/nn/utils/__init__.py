"""Gradient clipping, parameters as one vector, sequences of unequal length.

Source: https://docs.pytorch.org/docs/stable/nn.html#utilities
"""

from jtorch.nn.utils import (
    parametrizations as parametrizations,
    parametrize as parametrize,
    rnn as rnn,
    stateless as stateless,
)
from jtorch.nn.utils.clip_grad import (
    clip_grad_norm_ as clip_grad_norm_,
    clip_grad_value_ as clip_grad_value_,
    clip_grads_with_norm_ as clip_grads_with_norm_,
    get_total_norm as get_total_norm,
)
from jtorch.nn.utils.convert_parameters import (
    parameters_to_vector as parameters_to_vector,
    vector_to_parameters as vector_to_parameters,
)
from jtorch.nn.utils.fusion import (
    fuse_conv_bn_eval as fuse_conv_bn_eval,
    fuse_conv_bn_weights as fuse_conv_bn_weights,
    fuse_linear_bn_eval as fuse_linear_bn_eval,
    fuse_linear_bn_weights as fuse_linear_bn_weights,
)
from jtorch.nn.utils.init import skip_init as skip_init
from jtorch.nn.utils.spectral_norm import (
    remove_spectral_norm as remove_spectral_norm,
    spectral_norm as spectral_norm,
)
from jtorch.nn.utils.weight_norm import remove_weight_norm as remove_weight_norm, weight_norm as weight_norm
