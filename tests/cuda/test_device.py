"""A device of the driver's: memory, kernels, graphs, and a process that was forked."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

from jtorch.core.errors import CudaError
from jtorch.native.cuda.blas import Factor
from jtorch.native.cuda.graph import Capture
from jtorch.native.cuda.memory import rounded
from tests.cuda.device import GLOBAL, FakeDevice, cuda_device
from tests.cuda.texts import ADD, COPY, NARROW


def upload(device, values) -> object:
    """A buffer with these numbers."""
    array = np.array(values, np.float32)
    buffer = device.allocate(array.nbytes)
    device.upload(buffer.address, array.ctypes.data, array.nbytes)
    return buffer


def download(device, buffer) -> list[float]:
    array = np.empty(buffer.nbytes // 4, np.float32)
    device.download(array.ctypes.data, buffer.address, array.nbytes)
    return array.tolist()


def copy(device, to, source) -> None:
    kernel = device.kernel(COPY, "copy")
    device.launch(kernel, (1, 1), (source.nbytes // 4, 1), [to.address, source.address])


def test_what_was_uploaded_comes_back():
    device = cuda_device()
    assert download(device, upload(device, [1, 2, 3])) == [1, 2, 3]


def test_addresses_recur():
    device = cuda_device()

    def program() -> list[int]:
        buffers = [device.allocate(n) for n in (100, 5000, 100, 1 << 20)]
        return [b.address for b in buffers]

    first = program()
    calls = device.statistics.driver_calls
    assert sorted(program()) == sorted(first)
    assert device.statistics.driver_calls == calls == 4
    assert all(address % 256 == 0 for address in first)


def test_statistics_count_what_is_in_use_and_what_the_driver_gave():
    device = cuda_device()
    buffer = device.allocate(1000)
    now = device.statistics
    assert (now.allocated, now.reserved, now.max_allocated) == (1024, 1024, 1024)
    del buffer
    assert (device.statistics.allocated, now.reserved) == (0, 1024)
    device.memory.empty_cache()
    assert (now.reserved, now.max_reserved, device.fake.in_use) == (0, 1024, 0)


def test_few_sizes_hold_all():
    sizes = {rounded(n) for n in range(1, 1 << 16)}
    assert all(n <= rounded(n) <= max(512 * -(-n // 512), 1.126 * n) for n in range(1, 1 << 16))
    assert len(sizes) < 100


def test_kept_memory_is_given_back_before_there_is_none():
    device = cuda_device(FakeDevice(total=1 << 20))
    device.allocate(700_000)  # dropped at once, and kept
    buffer = device.allocate(900_000)
    assert buffer.nbytes == 900_000
    with pytest.raises(
        CudaError, match=r"^CUDA out of memory\. Tried to allocate .* total capacity of 1\.00 MiB"
    ):
        device.allocate(900_000)
    assert device.fake.fault is None


def test_a_kernel_runs_when_somebody_waits():
    device = cuda_device()
    source, to = upload(device, [1, 2, 3]), device.allocate(12)
    copy(device, to, source)
    assert device.fake.ran == []
    assert download(device, to) == [1, 2, 3]
    assert device.fake.ran[-1] == "copy"


def test_parameters_are_words_and_their_number_is_checked():
    device = cuda_device()
    with pytest.raises(
        CudaError, match=r"parameter 1 of narrow is '.*u32 narrow_param_1'; each must be a word of 8"
    ):
        device.kernel(NARROW, "narrow")
    with pytest.raises(CudaError, match="copy takes 2 parameters, not 3"):
        device.launch(device.kernel(COPY, "copy"), (1, 1), (1, 1), [1, 2, 3])
    with pytest.raises(CudaError, match="no entry other in the PTX"):
        device.kernel(COPY, "other")


def test_what_the_driver_says_of_a_text_is_in_the_error():
    device = cuda_device()
    with pytest.raises(CudaError, match=r"CUDA_ERROR_INVALID_PTX.*The module is that of copy\. ptxas fatal"):
        device.kernel(COPY.replace("ld.global.f32", "lod.global.f32"), "copy")


def test_a_text_for_newer_drivers_is_refused():
    with pytest.raises(
        CudaError, match=r"UNSUPPORTED_PTX_VERSION \(this driver knows 8\.3, and the text is \.version 9\.0\)"
    ):
        cuda_device().kernel(COPY.replace(".version 8.0", ".version 9.0"), "copy")


def test_a_launch_that_no_device_takes_is_refused():
    device = cuda_device()
    kernel = device.kernel(COPY, "copy")
    with pytest.raises(
        CudaError, match=r"cuLaunchKernel: CUDA_ERROR_INVALID_VALUE \(copy in a grid of 0 x 1 blocks"
    ):
        device.launch(kernel, (0, 1), (1, 1), [0, 0])
    with pytest.raises(CudaError, match="copy in blocks of 2048 x 1"):
        device.launch(kernel, (1, 1), (2048, 1), [0, 0])


# -- faults --------------------------------------------------------------------------------------------------


def test_memory_that_was_freed_is_named():
    device = cuda_device(caching=False)
    source, to = upload(device, [1, 2]), device.allocate(8)
    address = source.address
    device.synchronize()
    del source
    device.statistics  # noqa: B018 - takes back what was dropped
    device.launch(device.kernel(COPY, "copy"), (1, 1), (2, 1), [to.address, address])
    with pytest.raises(
        CudaError, match=r"cuStreamSynchronize.*copy: .* into allocation 0 of 8 bytes, which was freed"
    ):
        device.synchronize()
    with pytest.raises(CudaError, match="cuMemAlloc_v2: CUDA_ERROR_ILLEGAL_ADDRESS"):
        device.allocate(1)


def test_memory_that_nobody_has_written_is_named():
    device = cuda_device()
    source, to = device.allocate(8), device.allocate(8)
    device.launch(device.kernel(COPY, "copy"), (1, 1), (2, 1), [to.address, source.address])
    with pytest.raises(CudaError, match=r"copy: .*allocation 0 .* is read, .*nobody has written"):
        device.synchronize()


def test_what_lies_beside_memory_is_not_ours():
    device = cuda_device(caching=False)
    source, to = upload(device, [1, 2, 3]), device.allocate(8)
    copy(device, to, source)
    with pytest.raises(
        CudaError, match=r"copy: .*4 bytes at .* are wanted, 8 bytes into allocation 1 of 8 bytes"
    ):
        device.synchronize()


def test_an_address_of_the_other_side_is_none():
    device = cuda_device()
    array, buffer = np.zeros(2, np.float32), upload(device, [1, 2])
    with pytest.raises(CudaError, match=r"cuMemcpyHtoDAsync_v2 from .*, which is an address of the device"):
        device.upload(buffer.address, buffer.address, 8)
    device = cuda_device()
    with pytest.raises(CudaError, match="is no address of device memory"):
        device.upload(array.ctypes.data, array.ctypes.data, 8)


def test_guard_bytes_are_looked_at():
    device = cuda_device()
    upload(device, [1, 2])
    device.fake.memory.allocations[0].room[0] = 0
    with pytest.raises(CudaError, match="something wrote beside allocation 0"):
        device.synchronize()


# -- graphs --------------------------------------------------------------------------------------------------


def captured(device, *steps):
    """A graph of steps (what each waits for, what it puts into the stream)."""
    capture = Capture(device)
    nodes: list[list[int]] = []
    with capture.recording():
        for after, enqueue in steps:
            capture.wait_for([n for k in after for n in nodes[k]])
            enqueue()
            nodes.append(capture.latest)
    return capture.graph


def a_chain(device, edge: bool = True):
    """source -> middle -> last, and whether the second copy waits for the first."""
    source, middle, last = upload(device, [1, 2]), upload(device, [0, 0]), upload(device, [0, 0])
    graph = captured(
        device,
        ([], lambda: copy(device, middle, source)),
        ([0] if edge else [], lambda: copy(device, last, middle)),
    )
    return graph, last, (source, middle)


def test_a_graph_runs_in_the_order_of_its_edges():
    for seed in range(4):
        device = cuda_device(FakeDevice(seed))
        graph, last, _held = a_chain(device)
        graph.launch()
        assert download(device, last) == [1, 2]


def test_a_missing_edge_is_named():
    for seed in range(4):
        device = cuda_device(FakeDevice(seed))
        graph, last, _held = a_chain(device, edge=False)
        graph.launch()
        with pytest.raises(
            CudaError, match=r"'copy' and 'copy' both touch byte 0 of allocation 1.* no edge of the graph"
        ):
            download(device, last)


def test_a_graph_that_nobody_has_is_destroyed():
    device = cuda_device()
    for _ in range(3):
        graph, _last, _held = a_chain(device)
        graph.launch()
        device.synchronize()
        del graph
    assert device.fake.calls.count("cuGraphExecDestroy") == 2  # the last one with the next capture
    assert device.fake.calls.count("cuGraphDestroy") == 3


def test_what_is_illegal_while_a_stream_is_captured_is_named():
    array = np.zeros(2, np.float32)
    for name, enqueue in {
        "cuStreamSynchronize": lambda device: device.synchronize(),
        "cuMemcpyHtoDAsync_v2": lambda device: device.upload(device.held.address, array.ctypes.data, 8),
        "cuMemcpyDtoHAsync_v2": lambda device: device.download(array.ctypes.data, device.held.address, 8),
    }.items():
        device = cuda_device()
        device.held = device.allocate(8)
        with pytest.raises(CudaError, match=rf"{name}: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"):
            captured(device, ([], lambda e=enqueue, d=device: e(d)))
        device.synchronize()  # the capture is over
        assert device.fake.fault is None


def test_memory_may_be_asked_for_in_a_relaxed_capture_alone(monkeypatch):
    device = cuda_device()
    captured(device, ([], lambda: device.allocate(8)))
    monkeypatch.setattr("jtorch.native.cuda.graph._RELAXED", GLOBAL)
    with pytest.raises(
        CudaError, match=r"cuMemAlloc_v2: .*STREAM_CAPTURE_UNSUPPORTED .*whose mode is not relaxed"
    ):
        captured(device, ([], lambda: device.allocate(4096)))


def test_a_node_waits_for_nodes_of_its_own_graph():
    device = cuda_device()
    with pytest.raises(CudaError, match=r"0x123 is no node of what is captured"):
        captured(device, ([], lambda: Capture(device).wait_for([0x123])))


def test_a_destroyed_graph_is_no_graph():
    device = cuda_device()
    graph, _last, _held = a_chain(device)
    device.cuda.cuGraphExecDestroy(graph.handle)
    with pytest.raises(
        CudaError, match=r"cuGraphLaunch: CUDA_ERROR_INVALID_HANDLE .*nothing, or destroyed, not a tuple"
    ):
        graph.launch()


# -- products ------------------------------------------------------------------------------------------------


def multiply(device, blas, x, y, out, n: int = 2, add: bool = False) -> None:
    factors = (Factor(b.address, False, n, 0) for b in (x, y, out))
    blas.gemm((np.dtype(np.float32),) * 2, (1, n, n, n), *factors, add)


def test_a_product_is_in_row_major_order():
    device = cuda_device()
    blas = device.blas
    x, y, out = (upload(device, v) for v in ([1, 2, 3, 4], [5, 6, 7, 8], [1, 1, 1, 1]))
    multiply(device, blas, x, y, out)
    assert download(device, out) == [19, 22, 43, 50]
    multiply(device, blas, x, y, out, add=True)
    assert download(device, out) == [38, 44, 86, 100]


def test_products_that_run_at_once_share_a_workspace():
    device = cuda_device()
    blas = device.blas
    x, one, two = (upload(device, [1, 2, 3, 4]) for _ in range(3))
    graph = captured(
        device,
        ([], lambda: multiply(device, blas, x, x, one)),
        ([], lambda: multiply(device, blas, x, x, two)),
    )
    graph.launch()
    with pytest.raises(CudaError, match=r"workspace|no edge of the graph says which comes first"):
        device.synchronize()


def test_a_product_needs_a_workspace_before_it_is_captured():
    device = cuda_device()
    blas = device.blas
    blas.cublas.cublasSetStream_v2(blas.handle, device.stream)  # which resets it
    x = upload(device, [1, 2, 3, 4])
    with pytest.raises(CudaError, match="cublasGemmStridedBatchedEx: CUBLAS_STATUS_INTERNAL_ERROR"):
        captured(device, ([], lambda: multiply(device, blas, x, x, x)))


# -- processes and threads -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_forked_process_is_refused_even_while_another_thread_is_inside():
    device, inside, over = cuda_device(), threading.Event(), threading.Event()

    def work() -> None:
        with device.own():
            inside.set()
            over.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(60)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(20)  # ends a child that waits
        try:
            with device.own():
                text = "nothing was raised"
        except CudaError as error:
            text = str(error)
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    over.set()
    thread.join()
    assert os.read(read, 1000).decode().startswith("Cannot re-initialize CUDA in forked subprocess")
    assert device.allocate(8).nbytes == 8


def test_a_thread_has_no_context_of_its_own():
    device, found = cuda_device(), []

    def work(enter: bool) -> None:
        try:
            if enter:
                device.enter()
            device.allocate(1 << 14)
        except CudaError as error:
            found.append(str(error))

    for enter in (False, True):
        thread = threading.Thread(target=work, args=(enter,))
        thread.start()
        thread.join()
    assert len(found) == 1 and "cuMemAlloc_v2: CUDA_ERROR_INVALID_CONTEXT" in found[0]


def test_an_old_device_is_refused():
    with pytest.raises(
        CudaError, match=r"fake device has compute capability 7\.5: jtorch's kernels need 8\.0"
    ):
        cuda_device(FakeDevice(capability=(7, 5)))


def test_two_threads_that_store_different_values_to_one_place_are_named():
    device = cuda_device()
    source, to = upload(device, [1, 2]), device.allocate(4)
    device.launch(device.kernel(ADD, "same_place"), (1, 1), (2, 1), [to.address, source.address])
    with pytest.raises(
        CudaError, match=r"same_place, line .* is written here and written by another thread, and no barrier"
    ):
        device.synchronize()
