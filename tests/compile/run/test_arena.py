"""Aligned, zeroed, owned."""

from __future__ import annotations

import pytest

import jtorch
from jtorch.compile.run import arena
from jtorch.compile.run.arena import ALIGNMENT, allocate


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 4096, 1 << 20])
def test_buffer_has_its_size_and_starts_at_the_address(nbytes):
    buffer, address = allocate(nbytes)
    assert buffer.nbytes == nbytes and not buffer.any()
    assert address % ALIGNMENT == 0
    assert nbytes == 0 or buffer.ctypes.data == address


def test_buffers_do_not_overlap_and_every_byte_can_be_written():
    buffers = [allocate(1000)[0] for _ in range(10)]
    for value, buffer in enumerate(buffers):
        buffer[:] = value
    assert all((buffer == value).all() for value, buffer in enumerate(buffers))


def test_negative_size():
    with pytest.raises(ValueError, match="-1 bytes"):
        allocate(-1)


def test_a_larger_one_has_twice_the_size_where_there_is_so_much(monkeypatch):
    real = arena.allocate

    def allocate(nbytes):
        if nbytes > 5000:
            raise MemoryError
        return real(nbytes)

    monkeypatch.setattr(arena, "allocate", allocate)
    for nbytes, before, expected in ((100, 80, 160), (100, 20, 100), (3000, 2600, 3000)):
        assert len(arena.grown(nbytes, before)[0]) == expected
    with pytest.raises(MemoryError):
        arena.grown(6000, 10)


def test_what_there_is_no_memory_for_is_said():
    with pytest.raises(
        MemoryError, match="there are no 1,152,921,504,606,846,976 bytes for what a compiled call"
    ):
        arena.allocate(1 << 60)


def test_a_plan_that_is_too_large_names_the_line_of_its_largest_value():
    def outer(x):
        small = x.sum()
        products = (x * 2).unsqueeze(1) @ x.unsqueeze(0)
        return products.cumsum(0).sum() + small

    sentence = (
        r"float32\[3000000, 3000000\] of 36,000,000,000,000 bytes, made at .*test_arena.py:\d+ in outer"
    )
    with pytest.raises(MemoryError, match=sentence):
        jtorch.compile(outer)(jtorch.ones(3_000_000))
