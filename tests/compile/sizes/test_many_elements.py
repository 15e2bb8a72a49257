"""More than 2**31 elements, which a tensor with a stride of 0 has without their memory."""

from __future__ import annotations

import gc

import pytest

import jtorch

WIDTH = 40_000


def reduced(x):
    wide = x.expand(x.shape[0], WIDTH)
    return wide.sum(), wide.sum(1), (wide * 2 + 1).max(), wide.argmax(), wide[-1, -1], wide.numel()


@pytest.mark.soak
@pytest.mark.parametrize("threads", [1, 2])
def test_more_elements_than_an_int32_counts(threads):
    before = jtorch.get_num_threads()
    jtorch.set_num_threads(threads)
    try:
        any_size, exact = jtorch.compile(reduced, dynamic=True), jtorch.compile(reduced, dynamic=False)
        for rows in (3, 50, 2**31 // WIDTH + 100):
            x = (jtorch.arange(rows, dtype=jtorch.float64) % 7).unsqueeze(1)
            found = any_size(x)
            if rows < 100:  # beyond, each plan has 17 GB
                for a, b in zip(found[:-1], exact(x)[:-1], strict=True):
                    assert a.tolist() == b.tolist()
            total, sums, largest, place, last, count = found
            assert count == rows * WIDTH
            assert total.item() == x.sum().item() * WIDTH  # sums of small integers: exact
            assert sums.tolist() == (x[:, 0] * WIDTH).tolist()
            assert largest.item() == 2 * x.max().item() + 1
            assert place.item() == int(x[:, 0].argmax()) * WIDTH
            assert last.item() == x[-1, 0].item()
        assert sum(map(len, any_size.plans.values())) == 2  # places beyond int32 are found in another way
    finally:
        jtorch.set_num_threads(before)
        del any_size, exact
        gc.collect()  # 17 GB
