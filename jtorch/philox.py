"""Placeholder being replaced."""
import numpy as np
def raw_bits(seed, call, n):
    return np.random.Philox(key=[seed, call]).random_raw(n).astype(np.uint64) if n else np.zeros(0, np.uint64)
def uniform(bits, dtype):
    return ((bits >> 40) * 2.0**-24).astype(dtype) if np.dtype(dtype).itemsize == 4 else (bits >> 11) * 2.0**-53
def normal(bits, dtype):
    from scipy.special import ndtri
    return ndtri(((bits >> 11) + 0.5) * 2.0**-53).astype(dtype)
def bounded(bits, low, high):
    return (low + (bits % np.uint64(high - low)).astype(np.int64))
