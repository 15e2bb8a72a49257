"""What scripts ask about the machine, and the switches they set: truthful answers."""

from __future__ import annotations

import copy
import importlib
import pickle

import pytest

import jtorch
from jtorch.core import settings
from jtorch.core.errors import CompileError
from tests.ops.support import needs_torch


def test_devices_can_be_named_and_only_the_cpu_used():
    cuda = jtorch.device("cuda", 1)
    assert (str(cuda), repr(cuda)) == ("cuda:1", "device(type='cuda', index=1)")
    assert cuda == jtorch.device("cuda:1") != jtorch.device("cuda")
    assert pickle.loads(pickle.dumps(cuda)) == cuda
    for kind in (RuntimeError, AssertionError):  # PyTorch raises one or the other, by the kind of device
        with pytest.raises(kind, match="Torch not compiled with CUDA enabled"):
            jtorch.ones(2).to(cuda)
    with pytest.raises(RuntimeError, match="not linked with support for mps"):
        jtorch.set_default_device("mps")
    with jtorch.device("cpu"):
        assert jtorch.ones(1).device == jtorch.get_default_device() == jtorch.device("cpu")
    with pytest.raises(RuntimeError, match="not compiled with CUDA"), cuda:
        pass
    assert jtorch.device("cpu")(lambda: 3)() == 3


DEVICES = ("cpu", "cuda:0", "mps", "foo", "cuda:x", "cpu:1", 3.5, "")


@needs_torch
@pytest.mark.parametrize("name", DEVICES, ids=str)
def test_names_of_devices_are_pytorchs(name):
    import torch

    try:
        theirs = repr(torch.device(name))
    except (RuntimeError, TypeError) as error:
        with pytest.raises(type(error)):
            jtorch.device(name)
    else:
        assert repr(jtorch.device(name)) == theirs


def test_there_is_no_gpu():
    for module in (jtorch.cuda, jtorch.mps, jtorch.xpu, jtorch.accelerator, jtorch.backends.cudnn):
        assert not module.is_available()
    assert jtorch.cuda.device_count() == jtorch.accelerator.device_count() == 0
    assert jtorch.accelerator.current_accelerator() is None
    assert jtorch.cuda.memory_allocated() == jtorch.cuda.max_memory_reserved() == 0
    for passes in (jtorch.cuda.empty_cache, jtorch.cuda.seed_all):
        assert passes() is None
    assert jtorch.cuda.manual_seed_all(3) is None
    for refused in (jtorch.cuda.synchronize, jtorch.cuda.current_device, jtorch.cuda.get_device_name):
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            refused()
    with pytest.raises(RuntimeError, match="Cannot access accelerator device"):
        jtorch.accelerator.synchronize()
    assert jtorch.cpu.is_available()


def test_switches_are_told_back():
    before = jtorch.get_num_threads()
    jtorch.set_num_threads(3)
    assert jtorch.get_num_threads() == 3
    jtorch.set_num_threads(before)
    with pytest.raises(RuntimeError, match="expects a positive integer"):
        jtorch.set_num_threads(0)
    for number, wide in ((2**31, ""), (2**32, ""), (2**63, " long"), (2**64, " long")):
        with pytest.raises(ValueError, match=f"^Overflow when unpacking long{wide}$"):
            jtorch.set_num_threads(number)
    assert jtorch.get_num_threads() == before
    jtorch.use_deterministic_algorithms(True, warn_only=True)
    assert jtorch.are_deterministic_algorithms_enabled()
    assert jtorch.get_deterministic_debug_mode() == 1
    jtorch.set_deterministic_debug_mode("default")
    assert not jtorch.are_deterministic_algorithms_enabled()
    jtorch.set_float32_matmul_precision("high")
    assert jtorch.get_float32_matmul_precision() == "high"
    jtorch.set_float32_matmul_precision("highest")
    with jtorch.backends.cudnn.flags(enabled=True, deterministic=True):
        assert jtorch.backends.cudnn.deterministic
    assert not jtorch.backends.cudnn.deterministic


@pytest.fixture
def tf32():
    """The switches for it; as a process begins, before and after."""
    matmul, cudnn = jtorch.backends.cuda.matmul, jtorch.backends.cudnn
    matmul.fp32_precision = "none"
    yield matmul, cudnn
    matmul.fp32_precision, cudnn.allow_tf32 = "none", True


@needs_torch
def test_the_switches_for_tf32_move_together_as_pytorchs(tf32):
    import torch

    def seen(of):
        matmul = of.backends.cuda.matmul
        return of.get_float32_matmul_precision(), matmul.allow_tf32, matmul.fp32_precision

    def set_all(of):
        yield seen(of)
        for precision in ("high", "medium", "highest"):
            of.set_float32_matmul_precision(precision)
            yield seen(of)
        for allowed in (True, False):
            of.backends.cuda.matmul.allow_tf32 = allowed
            yield seen(of)

    ours, (first, *theirs) = list(set_all(jtorch)), set_all(torch)
    assert ours[1:] == theirs and ours[0] == ("highest", False, "none")
    assert first[:2] == ours[0][:2]  # the third was set, if another test has set any of them
    jtorch.backends.cuda.matmul.fp32_precision = "tf32"
    assert seen(jtorch) == ("high", True, "tf32")  # where PyTorch raises, as two ways to ask were mixed
    for unknown, error in {
        "bf16": "backend 'cuda' does not support precision 'bf16'",
        "x": "Unknown precision: x",
    }.items():
        for each in (jtorch, torch):
            with pytest.raises(RuntimeError, match=error):
                each.backends.cuda.matmul.fp32_precision = unknown
    for each in (jtorch, torch):
        for switches in (each.backends.cuda.matmul, each.backends.cudnn):
            before = switches.allow_tf32
            with pytest.raises(RuntimeError, match="set_allow_tf32_cublas expects a bool, but got str"):
                switches.allow_tf32 = "False"
            assert switches.allow_tf32 is before
        with pytest.raises(TypeError):
            each.backends.cuda.matmul.fp32_precision = None


def test_there_is_one_switch_for_tf32(tf32):
    """Copies are it, and what is loaded again begins anew, for products, too."""
    matmul, cudnn = tf32
    assert copy.copy(matmul) is copy.deepcopy(matmul) is pickle.loads(pickle.dumps(matmul)) is matmul
    matmul.allow_tf32, cudnn.allow_tf32 = True, False
    assert not settings.allows_tf32()
    importlib.reload(cudnn)
    assert cudnn.allow_tf32 and settings.allows_tf32()
    for precision, allowed in {"ieee": False, "tf32": True, "none": True}.items():
        cudnn.fp32_precision = precision
        assert cudnn.fp32_precision == precision and cudnn.allow_tf32 is settings.allows_tf32() is allowed
    with pytest.raises(RuntimeError, match="Unknown precision: x"):
        cudnn.fp32_precision = "x"
    assert cudnn.fp32_precision == "none"


def test_a_recording_knows_the_switches_for_tf32(tf32):
    matmul, cudnn = tf32

    @jtorch.compile
    def asks(x):
        return x + 1 * matmul.allow_tf32 + 2 * (matmul.fp32_precision == "tf32") + 4 * cudnn.allow_tf32

    for _ in range(2):
        for precision, expected in ("tf32", 7.0), ("ieee", 4.0):
            matmul.fp32_precision = precision
            assert asks(jtorch.zeros(1)).item() == expected
            with cudnn.flags(allow_tf32=False):
                assert asks(jtorch.zeros(1)).item() == expected - 4
    matmul.allow_tf32 = False

    def asks_for(x):
        matmul.allow_tf32 = True
        return x

    with pytest.raises(CompileError, match="'allow_tf32' of a Matmul, which it reads from outside"):
        jtorch.compile(asks_for, fullgraph=True)(jtorch.zeros(1))
    assert not matmul.allow_tf32


def test_no_two_ops_run_at_a_time(monkeypatch):
    monkeypatch.setitem(settings._state, "interop", False)
    jtorch.set_num_interop_threads(4)
    assert jtorch.get_num_interop_threads() == 1
    with pytest.raises(RuntimeError, match="cannot set number of interop threads after"):
        jtorch.set_num_interop_threads(4)
    with pytest.raises(RuntimeError, match="expects a positive integer"):
        jtorch.set_num_interop_threads(0)


def test_mixed_precision_for_a_gpu_is_off():
    with pytest.warns(UserWarning, match="CUDA is not available"), jtorch.autocast("cuda"):
        pass
    with pytest.warns(UserWarning, match="is not available.  Disabling"):
        jtorch.amp.GradScaler("cuda")
    scaler = jtorch.amp.GradScaler(enabled=False)
    p = jtorch.nn.Parameter(jtorch.ones(1))
    optimizer = jtorch.optim.SGD([p], lr=0.5)
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.5]
    assert (scaler.get_scale(), scaler.state_dict(), scaler.is_enabled()) == (1.0, {}, False)


def test_scripted_functions_are_themselves():
    @jtorch.jit.script
    def double(x):
        return x * 2

    assert double(jtorch.ones(1)).tolist() == [2.0]
    with pytest.raises(NotImplementedError, match=r"torch\.jit\.script"):
        jtorch.jit.script(jtorch.nn.Linear(1, 1))
    with pytest.raises(NotImplementedError, match=r"torch\.jit\.trace"):
        jtorch.jit.trace(double, (jtorch.ones(1),))


def test_versions_compare_by_their_numbers():
    version = jtorch.__version__
    assert version >= "1.10.0"
    assert version > (1, 9)
    assert version < "2.100"
    assert version == "2.13"
    assert version != "2.13.0+cpu"
    assert version.startswith("2.13")
    assert {version: 1}[version] == 1


@needs_torch
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_limits_of_floats_are_pytorchs(name):
    import torch

    ours, theirs = jtorch.finfo(getattr(jtorch, name)), torch.finfo(getattr(torch, name))
    assert repr(ours) == repr(theirs)
    for fact in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
        assert getattr(ours, fact) == getattr(theirs, fact)


@needs_torch
@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16"])
def test_limits_of_integers_are_pytorchs(name):
    import torch

    ours, theirs = jtorch.iinfo(getattr(jtorch, name)), torch.iinfo(getattr(torch, name))
    assert repr(ours) == repr(theirs)
    assert (ours.bits, ours.max, ours.min, ours.dtype) == (theirs.bits, theirs.max, theirs.min, theirs.dtype)


NAMES = ("bool", "uint8", "int8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "complex64")


@needs_torch
@pytest.mark.parametrize("name", NAMES)
def test_casts_and_promotions_are_pytorchs(name):
    import torch

    for other in NAMES:
        assert jtorch.can_cast(getattr(jtorch, name), getattr(jtorch, other)) == torch.can_cast(
            getattr(torch, name), getattr(torch, other)
        )
        ours = jtorch.promote_types(getattr(jtorch, name), getattr(jtorch, other))
        assert ours.name == str(torch.promote_types(getattr(torch, name), getattr(torch, other)))[6:]
        result = jtorch.result_type(jtorch.ones(2, dtype=getattr(jtorch, name)), 1.5)
        assert result.name == str(torch.result_type(torch.ones(2, dtype=getattr(torch, name)), 1.5))[6:]


def test_questions_about_values():
    x = jtorch.ones(2, 3)
    assert jtorch.is_tensor(x)
    assert not jtorch.is_tensor([x])
    assert jtorch.is_storage(x.untyped_storage())
    assert jtorch.numel(x) == 6
    assert (jtorch.typename(x), jtorch.typename(3)) == ("torch.FloatTensor", "int")
    assert jtorch.is_floating_point(x)
    assert not jtorch.is_complex(x)
    assert jtorch.is_nonzero(jtorch.tensor(2))
    assert (x.layout, x.nbytes, x.itemsize, x.ndimension()) == (jtorch.strided, 24, 4, 2)
    assert x.is_cpu
    assert not (x.is_sparse or x.is_meta or x.is_quantized or x.is_pinned())
    assert jtorch.newaxis is None
    assert (jtorch.inf, jtorch.pi) == (float("inf"), pytest.approx(3.141592653589793))
    with pytest.raises(TypeError, match=r"argument 'input' \(position 1\) must be Tensor, not int"):
        jtorch.numel(3)
