"""Names of the module ``jtorch`` that are imported when they are first asked for.

Importing all of it at once would take twice as long, and few programs use all of it.
"""

from __future__ import annotations

SUBMODULES = frozenset(
    (
        "_C", "accelerator", "amp", "array_api", "backends", "compiler", "config", "cpu", "cuda",
        "distributed", "distributions", "errors", "fft", "func", "functional", "futures", "hub", "jit",
        "linalg", "masked", "mps", "multiprocessing", "nn", "optim", "profiler", "quasirandom", "random",
        "return_types", "serialization", "signal", "sparse", "special",
        "testing", "training", "types", "utils", "version", "vision", "viz", "xpu",
    )
)  # fmt: skip

# module -> the names that it gives
_GIVEN = {
    "jtorch._C": (
        "_assert", "_nnpack_available", "_shape_as_tensor",
    ),
    "jtorch.amp": (
        "GradScaler", "autocast",
    ),
    "jtorch.amp.autocast_mode": (
        "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache",
        "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_cache_enabled",
        "is_autocast_cpu_enabled", "is_autocast_enabled", "set_autocast_cache_enabled",
        "set_autocast_cpu_dtype", "set_autocast_cpu_enabled", "set_autocast_dtype", "set_autocast_enabled",
        "set_autocast_gpu_dtype",
    ),
    "jtorch.eager.factors": (
        "geqrf", "lu_unpack", "orgqr", "ormqr", "triangular_solve",
    ),
    "jtorch.eager.finite_differences": (
        "gradient",
    ),
    "jtorch.eager.foreach": (
        "_foreach_abs", "_foreach_abs_", "_foreach_acos", "_foreach_acos_", "_foreach_add",
        "_foreach_add_", "_foreach_addcdiv", "_foreach_addcdiv_", "_foreach_addcmul",
        "_foreach_addcmul_", "_foreach_asin", "_foreach_asin_", "_foreach_atan", "_foreach_atan_",
        "_foreach_ceil", "_foreach_ceil_", "_foreach_clamp_max", "_foreach_clamp_max_",
        "_foreach_clamp_min", "_foreach_clamp_min_", "_foreach_clone", "_foreach_copy_",
        "_foreach_cos", "_foreach_cos_", "_foreach_cosh", "_foreach_cosh_", "_foreach_div",
        "_foreach_div_", "_foreach_erf", "_foreach_erf_", "_foreach_erfc", "_foreach_erfc_",
        "_foreach_exp", "_foreach_exp_", "_foreach_expm1", "_foreach_expm1_", "_foreach_floor",
        "_foreach_floor_", "_foreach_frac", "_foreach_frac_", "_foreach_lerp", "_foreach_lerp_",
        "_foreach_lgamma", "_foreach_lgamma_", "_foreach_log", "_foreach_log10", "_foreach_log10_",
        "_foreach_log1p", "_foreach_log1p_", "_foreach_log2", "_foreach_log2_", "_foreach_log_",
        "_foreach_max", "_foreach_maximum", "_foreach_maximum_", "_foreach_minimum",
        "_foreach_minimum_", "_foreach_mm", "_foreach_mul", "_foreach_mul_", "_foreach_neg",
        "_foreach_neg_", "_foreach_norm", "_foreach_pow", "_foreach_pow_", "_foreach_reciprocal",
        "_foreach_reciprocal_", "_foreach_round", "_foreach_round_", "_foreach_rsqrt",
        "_foreach_rsqrt_", "_foreach_sigmoid", "_foreach_sigmoid_", "_foreach_sign",
        "_foreach_sign_", "_foreach_sin", "_foreach_sin_", "_foreach_sinh", "_foreach_sinh_",
        "_foreach_sqrt", "_foreach_sqrt_", "_foreach_sub", "_foreach_sub_", "_foreach_tan",
        "_foreach_tan_", "_foreach_tanh", "_foreach_tanh_", "_foreach_trunc", "_foreach_trunc_",
        "_foreach_zero_",
    ),
    "jtorch.eager.histograms": (
        "histogramdd",
    ),
    "jtorch.eager.lowrank": (
        "pca_lowrank", "svd_lowrank",
    ),
    "jtorch.eager.windows": (
        "bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window",
    ),
    "jtorch.func": (
        "vmap",
    ),
    "jtorch.compat.control_flow": (
        "cond", "while_loop",
    ),
    "jtorch.compat.copies": (
        "alias_copy", "as_strided_copy", "detach_copy", "diagonal_copy", "expand_copy", "narrow_copy",
        "permute_copy", "select_copy", "split_copy", "split_with_sizes_copy", "squeeze_copy", "t_copy",
        "transpose_copy", "unbind_copy", "unfold_copy", "unsafe_chunk", "unsafe_split",
        "unsafe_split_with_sizes", "unsqueeze_copy", "view_copy", "slice_copy", "view_as_complex_copy",
        "view_as_real_copy",
    ),
    "jtorch.compat.low_level": (
        "addmv_", "affine_grid_generator", "alpha_dropout", "alpha_dropout_", "arccos_", "arccosh_",
        "arcsin_", "arcsinh_", "arctan_", "arctanh_", "batch_norm", "clamp_", "clip_", "constant_pad_nd",
        "convolution", "cosine_embedding_loss", "ctc_loss", "detach_", "dropout", "dropout_",
        "feature_alpha_dropout", "feature_alpha_dropout_", "fill_", "fix_", "frac_", "get_device",
        "grid_sampler", "group_norm", "gru_cell", "hinge_embedding_loss", "index_put_", "instance_norm",
        "is_conj", "ldexp_", "lstm_cell", "margin_ranking_loss", "negative_", "norm_except_dim",
        "poisson_nll_loss", "resize_as_", "rnn_relu_cell", "rnn_tanh_cell", "square_",
        "triplet_margin_loss", "zero_",
    ),
    "jtorch.compat.native": (
        "as_strided_scatter", "conv_tbc", "empty_permuted", "feature_dropout", "frobenius_norm",
        "grid_sampler_2d", "grid_sampler_3d", "native_batch_norm", "native_dropout", "native_group_norm",
        "embedding_bag", "embedding_renorm_", "feature_dropout_", "native_layer_norm", "nonzero_static",
        "nuclear_norm",
    ),
    "jtorch.compat.process": (
        "compiled_with_cxx11_abi", "get_device_module", "is_warn_always_enabled", "set_warn_always",
    ),
    "jtorch.compat.symbolic": (
        "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
    ),
    "jtorch.compat.lobpcg": (
        "lobpcg",
    ),
    "jtorch.compat.mapped_files": (
        "from_file",
    ),
    "jtorch.compat.segments": (
        "hash_tensor", "segment_reduce",
    ),
    "jtorch.compat.recurrent": (
        "gru", "lstm", "rnn_relu", "rnn_tanh",
    ),
    "jtorch.nn.functional": (
        "adaptive_avg_pool1d", "avg_pool1d", "bilinear", "channel_shuffle", "conv1d", "conv2d", "conv3d",
        "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cross_entropy", "max_pool1d",
        "max_pool1d_with_indices", "max_pool2d", "max_pool3d", "native_channel_shuffle", "nll_loss",
        "pixel_shuffle", "pixel_unshuffle", "rms_norm",
    ),
    "jtorch.serialization": (
        "load", "save",
    ),
    "jtorch.core.settings": (
        "are_deterministic_algorithms_enabled", "get_deterministic_debug_mode",
        "get_float32_matmul_precision", "get_num_interop_threads", "get_num_threads",
        "is_deterministic_algorithms_warn_only_enabled", "set_deterministic_debug_mode",
        "set_float32_matmul_precision", "set_flush_denormal", "set_num_interop_threads",
        "set_num_threads", "use_deterministic_algorithms",
    ),
    "jtorch.sparse.functions": (
        "hspmm", "smm", "spmm", "sspaddmm",
    ),
    "jtorch.sparse.making": (
        "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor",
    ),
    "jtorch.signal.spectra": (
        "istft", "stft",
    ),
    "jtorch.utils.summary": (
        "summary",
    ),
    "jtorch.eager.type_info": (
        "can_cast", "finfo", "iinfo", "is_storage",
        "promote_types", "result_type", "typename",
    ),
}  # fmt: skip
ORIGIN = {name: (module, name) for module, names in _GIVEN.items() for name in names}
ORIGIN |= {
    "lu": ("jtorch.eager.factors", "lu_old"),
    "lu_solve": ("jtorch.eager.factors", "lu_solve_old"),
    "adaptive_max_pool1d": ("jtorch.nn.functional", "adaptive_max_pool1d_with_indices"),
    "set_default_tensor_type": ("jtorch.compat.legacy", "set_default_tensor_type"),
}
