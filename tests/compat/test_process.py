"""Switches of the process, and functions of sizes that may be symbols."""

from __future__ import annotations

import pytest

import jtorch

LIBRARIES = pytest.mark.parametrize("library", ["jtorch", "torch"])


@LIBRARIES
def test_switches(library):
    L = pytest.importorskip(library)
    before = L.is_warn_always_enabled()
    L.set_warn_always(True)
    assert L.is_warn_always_enabled() is True
    L.set_warn_always(before)
    with pytest.raises(RuntimeError, match="setWarnOnlyOnce expects a bool, but got int"):
        L.set_warn_always(1)
    assert L.compiled_with_cxx11_abi() is True


@LIBRARIES
def test_modules_of_devices(library):
    L = pytest.importorskip(library)
    assert L.get_device_module() is L.get_device_module(L.device("cpu")) is L.cpu
    assert L.get_device_module("cuda:1") is L.cuda
    with pytest.raises(RuntimeError, match="Device 'meta' does not have a corresponding module"):
        L.get_device_module("meta")


@LIBRARIES
def test_numbers(library):
    L = pytest.importorskip(library)
    given = [
        L.sym_max(2, 3.5), L.sym_max(3, 2.0), L.sym_min(3, 2), L.sym_min(1, 2.0), L.sym_int(-2.7),
        L.sym_float(2), L.sym_sum([1, 2, 3]), L.sym_ite(True, 1, 2), L.sym_not(True), L.sym_not(0),
        L.sym_sqrt(4),
    ]  # fmt: skip
    expected = [3.5, 3.0, 2, 1.0, -2, 2.0, 6, 1, False, True, 2.0]
    assert [(type(g), g) for g in given] == [(type(e), e) for e in expected]
    with pytest.raises(AssertionError, match="expected SymBool or bool, got <class 'int'>"):
        L.sym_ite(1, 1, 2)


def test_tensors_are_no_numbers():
    with pytest.raises(TypeError, match=r"torch\.maximum"):
        jtorch.sym_max(jtorch.ones(1), 2)


def test_symbols_stay_symbols():
    @jtorch.compile(dynamic=True, fullgraph=True)
    def f(x):
        n = x.shape[0]
        most, total = jtorch.sym_max(n, 3), jtorch.sym_sum([n, n, 1])
        return (
            x.sum() + most * 10 + total * 100 + jtorch.sym_float(n) + jtorch.sym_sqrt(n) + jtorch.sym_int(n)
        )

    for n in (4, 9, 25):
        expected = n * 10 + (2 * n + 1) * 100 + 2 * n + n**0.5
        assert f(jtorch.zeros(n)).item() == pytest.approx(expected)
    assert not f.retraces
