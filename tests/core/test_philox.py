"""The counter-based generator: known vectors, one stream in every form, distributions."""

import ctypes
import threading

import numpy as np
import pytest
from scipy import special, stats

from jtorch.core import philox

TRANSFORMS = [
    "uniform_f32",
    "uniform_f64",
    "normal_f32",
    "normal_f64",
    "exponential_f32",
    "exponential_f64",
]


def reference_block(counter, key):
    """Philox4x64-10 from the paper's definition, in Python integers."""
    mask = 2**64 - 1
    for _ in range(10):
        product_0, product_1 = 0xD2E7470EE14C6C93 * counter[0], 0xCA5A826395121157 * counter[2]
        counter = [
            (product_1 >> 64) ^ counter[1] ^ key[0],
            product_1 & mask,
            (product_0 >> 64) ^ counter[3] ^ key[1],
            product_0 & mask,
        ]
        key = [(key[0] + 0x9E3779B97F4A7C15) & mask, (key[1] + 0xBB67AE8584CAA73B) & mask]
    return counter


def test_reference_agrees_with_the_published_vectors():
    # Random123's kat_vectors, "philox4x64 10"
    assert reference_block([0] * 4, [0] * 2) == [
        0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B,
    ]  # fmt: skip
    ones = 2**64 - 1
    assert reference_block([ones] * 4, [ones] * 2) == [
        0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0,
    ]  # fmt: skip


@pytest.mark.parametrize(("seed", "call"), [(0, 0), (67280421310721, 3), (2**64 - 1, 2**63), (-1, 2**64 + 5)])
def test_raw_bits_follow_the_stated_key_and_counter(seed, call):
    key = [seed % 2**64, call % 2**64]
    expected = [word for block in range(3) for word in reference_block([block + 1, 0, 0, 0], key)]
    assert philox.raw_bits(seed, call, 10).tolist() == expected[:10]


def test_an_element_depends_on_its_index_alone():
    longest = philox.raw_bits(5, 9, 1000)
    for n in (0, 1, 2, 3, 4, 5, 999):
        bits = philox.raw_bits(5, 9, n)
        assert bits.dtype == np.uint64 and np.array_equal(bits, longest[:n])


def test_streams_differ():
    draws = {tuple(philox.raw_bits(seed, call, 4)) for seed in range(20) for call in range(20)}
    assert len(draws) == 400


def test_a_negative_count_is_an_error():
    with pytest.raises(ValueError, match="at least 0, not -1"):
        philox.raw_bits(0, 0, -1)


def test_threads_do_not_share_a_stream():
    expected = {seed: philox.raw_bits(seed, 0, 64).tolist() for seed in range(8)}
    wrong = []

    def draw(seed):
        for _ in range(300):
            if philox.raw_bits(seed, 0, 64).tolist() != expected[seed]:
                wrong.append(seed)

    threads = [threading.Thread(target=draw, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_scalar_and_array_forms_agree():
    bits = philox.raw_bits(11, 12, 101)
    assert np.array_equal(philox.philox_u64(11, 12, np.arange(101)), bits)
    for index in (0, 1, 2, 3, 4, 100):
        one = philox.philox_u64(np.uint64(11), np.int64(12), np.int64(index))
        assert type(one) is np.uint64 and one == bits[index]
    assert [int(v) for v in philox.philox_block(11, 12, 24)] == bits[96:100].tolist()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_agree_for_scalars_and_arrays(name):
    bits = np.concatenate([philox.raw_bits(1, 2, 40), np.array([0, 2**64 - 1, 2**63, 2**63 - 1], np.uint64)])
    values = philox.KERNEL_FUNCTIONS[name](bits)
    dtype = np.float32 if name.endswith("f32") else np.float64
    scalars = [philox.KERNEL_FUNCTIONS[name](word) for word in bits]
    assert values.dtype == dtype and {type(v) for v in scalars} == {dtype}
    assert np.array_equal(np.array(scalars), values)


@pytest.mark.parametrize("n", [0, 1, philox.CHUNK, philox.CHUNK + 1, 3 * philox.CHUNK + 7])
@pytest.mark.parametrize("name", ["uniform", "normal", "exponential"])
def test_chunks_do_not_show(name, n):
    bits = philox.raw_bits(1, 2, n).reshape(1, n)
    whole = philox.KERNEL_FUNCTIONS[f"{name}_f32"](bits)
    values = getattr(philox, name)(bits, np.float32)
    assert values.shape == (1, n) and values.dtype == np.float32 and np.array_equal(values, whole)


def test_other_dtypes_are_errors():
    with pytest.raises(TypeError, match="float32 or float64, not int32"):
        philox.uniform(philox.raw_bits(0, 0, 3), np.int32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distributions(dtype):
    bits = philox.raw_bits(2024, 1, 200_000)
    assert stats.kstest(philox.uniform(bits, dtype), "uniform").pvalue > 0.001
    assert stats.kstest(philox.normal(bits, dtype), "norm").pvalue > 0.001
    assert stats.kstest(philox.exponential(bits, dtype), "expon").pvalue > 0.001


def test_distributions_across_calls_are_independent():
    columns = np.stack([philox.normal(philox.raw_bits(7, call, 50_000), np.float64) for call in range(4)])
    assert np.abs(np.corrcoef(columns) - np.eye(4)).max() < 4 / np.sqrt(50_000)
    neighbours = columns[:, :-1] * columns[:, 1:]
    assert abs(neighbours.mean()) < 4 / np.sqrt(neighbours.size)


def test_normal_is_the_quantile_function():
    bits = np.concatenate([philox.raw_bits(3, 3, 100_000), np.uint64(1) << np.arange(63, dtype=np.uint64)])
    odd = ((bits >> np.uint64(10)) & np.uint64(2**53 - 1)) | np.uint64(1)
    quantile = -special.ndtri(odd.astype(np.float64) * 2.0**-54)
    sign = np.where(bits >> np.uint64(63), -1.0, 1.0)
    assert np.abs(philox.normal(bits, np.float64) - sign * quantile).max() < 1e-12
    assert np.array_equal(philox.normal(bits, np.float32), philox.normal(bits, np.float64).astype(np.float32))


def test_exponential_is_positive_and_minus_the_logarithm():
    bits = np.concatenate([philox.raw_bits(3, 4, 100_000), np.array([0, 2**64 - 1], np.uint64)])
    values = philox.exponential(bits, np.float64)
    p = ((bits >> np.uint64(11)) | np.uint64(1)).astype(np.float64) * 2.0**-53
    assert values.min() > 0 and np.abs(values / -np.log(p) - 1).max() < 2e-13


def test_uniform_stays_below_one():
    top = np.array([2**64 - 1, 0], np.uint64)
    assert philox.uniform(top, np.float32).tolist() == [1 - 2.0**-24, 0.0]
    assert philox.uniform(top, np.float64).tolist() == [1 - 2.0**-53, 0.0]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 4), (0, 10), (-(2**63), 2**63 - 1), (5, 2**40)])
def test_bounded_is_exact_and_uniform(low, high):
    bits = philox.raw_bits(8, 8, 100_000)
    values = philox.bounded(bits, low, high)
    assert values.dtype == np.int64 and values.min() >= low and values.max() < high
    assert values[:50].tolist() == [low + (int(b) * (high - low) >> 64) for b in bits[:50]]
    assert [int(philox.bounded(b, low, high)) for b in bits[:5]] == values[:5].tolist()
    if high - low <= 10:
        assert (
            stats.chisquare(np.bincount(values - low, minlength=high - low)).pvalue > 0.001 or high - low == 1
        )


# --- compiled -------------------------------------------------------------------------------------


def compiled(text):
    numba = pytest.importorskip("numba", reason="the kernel forms are compiled by Numba")
    from jtorch.native import intrinsics, jit_names

    jit_names.register()
    namespace = {**vars(intrinsics), **philox.KERNEL_FUNCTIONS}
    exec(text, namespace)
    kernel = numba.cfunc(numba.types.int64(numba.types.CPointer(numba.types.int64)), error_model="numpy")(
        namespace["kernel"]
    )

    def call(*words):
        block = np.array(words, np.int64)
        return kernel.ctypes(block.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)))

    return call


@pytest.mark.slow
def test_kernel_draws_the_same_bits():
    kernel = compiled("""
def kernel(args):
    single = as_pointer_u64(args[1], 0)
    blocks = as_pointer_u64(args[2], 1)
    for i in range(args[0]):
        single[i] = philox_u64(args[3], args[4], i)
    for b in range(args[0] >> 2):
        x, y, z, w = philox_block(args[3], args[4], b)
        blocks[4 * b] = x
        blocks[4 * b + 1] = y
        blocks[4 * b + 2] = z
        blocks[4 * b + 3] = w
    return 0
""")
    n = 4099
    expected = philox.raw_bits(-5, 77, n)
    single, blocks = np.zeros(n, np.uint64), np.zeros(n, np.uint64)
    kernel(n, single.ctypes.data, blocks.ctypes.data, -5, 77)
    assert np.array_equal(single, expected)
    assert np.array_equal(blocks[: n // 4 * 4], expected[: n // 4 * 4])


@pytest.mark.parametrize("name", TRANSFORMS)
def test_kernel_transforms_are_bit_identical(name):
    kind = name[-3:]
    kernel = compiled(f"""
def kernel(args):
    bits = as_pointer_u64(args[1], 0)
    out = as_pointer_{kind}(args[2], 1)
    for i in range(args[0]):
        out[i] = {name}(bits[i])
    return 0
""")
    bits = np.concatenate([philox.raw_bits(1, 1, 200_000), np.uint64(1) << np.arange(64, dtype=np.uint64)])
    expected = getattr(philox, name[:-4])(bits, np.float32 if kind == "f32" else np.float64)
    out = np.empty_like(expected)
    kernel(len(bits), bits.ctypes.data, out.ctypes.data)
    assert np.array_equal(out, expected)


def test_kernel_bounded_is_identical():
    kernel = compiled("""
def kernel(args):
    bits = as_pointer_u64(args[1], 0)
    out = as_pointer_i64(args[2], 1)
    for i in range(args[0]):
        out[i] = bounded(bits[i], args[3], args[4])
    return 0
""")
    bits, out = philox.raw_bits(1, 1, 1000), np.empty(1000, np.int64)
    kernel(1000, bits.ctypes.data, out.ctypes.data, -7, 12345678901)
    assert np.array_equal(out, philox.bounded(bits, -7, 12345678901))
