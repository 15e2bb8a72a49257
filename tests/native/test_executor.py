"""The instruction walk: statuses, repeats, patches, threads, and nothing leaked."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

from jtorch.native import executor as executor_module, loader
from jtorch.native.executor import Executor, Patch, layout_is_known

# add_one: block = (address of an int64); returns 0.   fail: block = (code); returns it. copy: block
# = (from address, to address): one 8-byte word. wait: block = (address of a flag, limit): spins
# until the flag is set (0) or the limit is reached (7).
KERNELS = r"""
define i64 @add_one(ptr %args) {
  %target = load ptr, ptr %args
  %value = load i64, ptr %target
  %more = add i64 %value, 1
  store i64 %more, ptr %target
  ret i64 0
}
define i64 @fail(ptr %args) {
  %code = load i64, ptr %args
  ret i64 %code
}
define i64 @copy(ptr %args) {
  %to_slot = getelementptr i64, ptr %args, i64 1
  %from = load ptr, ptr %args
  %to = load ptr, ptr %to_slot
  %value = load i64, ptr %from
  store i64 %value, ptr %to
  ret i64 0
}
define i64 @wait(ptr %args) {
entry:
  %limit_slot = getelementptr i64, ptr %args, i64 1
  %flag = load ptr, ptr %args
  %limit = load i64, ptr %limit_slot
  br label %look
look:
  %count = phi i64 [ 0, %entry ], [ %next, %again ]
  %seen = load volatile i64, ptr %flag
  %set = icmp ne i64 %seen, 0
  br i1 %set, label %good, label %again
again:
  %next = add i64 %count, 1
  %over = icmp sge i64 %next, %limit
  br i1 %over, label %bad, label %look
good:
  ret i64 0
bad:
  ret i64 7
}
"""


@pytest.fixture(scope="module")
def kernels() -> dict[str, int]:
    return loader.load_many([loader.compile_ir(KERNELS)])[0]


@pytest.fixture(autouse=True)
def _private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("JTORCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture(params=["builtin", "python"])
def entry(request, monkeypatch):
    """Both ways in: the builtin, and the one for a Python whose object layout is unknown."""
    if request.param == "python":
        monkeypatch.setattr(executor_module, "layout_is_known", lambda: False)
    elif not layout_is_known():
        pytest.skip("this Python's object layout is unknown to the builtin entry")
    return request.param


def table(*rows: tuple[int, int, int, int]) -> np.ndarray:
    return np.array([(*row, 0) for row in rows], np.int64).reshape(-1, 5)


def test_layout_is_known_on_cpython():
    assert layout_is_known() == (sys.implementation.name == "cpython")


def test_empty_table(entry):
    assert Executor(table())() == 0


def test_rows_run_in_order_and_repeat_moves_along_the_block(kernels, entry):
    counts = np.zeros(5, np.int64)
    blocks = np.array([counts[i:].ctypes.data for i in range(5)], np.int64)
    here = blocks.ctypes.data
    rows = table(
        (kernels["add_one"], here, 5, 8), (kernels["add_one"], here + 8, 2, 16),
        (kernels["add_one"], here, 0, 8), (kernels["add_one"], here, -3, 8), (kernels["add_one"], here, 4, 0),
    )  # fmt: skip
    run = Executor(rows, keepalive=[blocks, counts]).run
    assert run() == 0
    assert counts.tolist() == [5, 2, 1, 2, 1]


@pytest.mark.parametrize("code", [1, 255, 65535])
def test_first_failure_stops_and_reports_row_and_code(kernels, entry, code):
    count = np.zeros(1, np.int64)
    block, failing = np.array([count.ctypes.data], np.int64), np.array([0, code], np.int64)
    add = (kernels["add_one"], block.ctypes.data, 1, 0)
    # Row 2 succeeds in its first round and fails in its second.
    executor = Executor(table(add, add, (kernels["fail"], failing.ctypes.data, 2, 8), add))
    status = executor.run()
    assert Executor.decode(status) == (2, code)
    assert count[0] == 2


def test_patches_store_data_addresses_offsets_and_float_bits(kernels, entry):
    source, target = np.arange(6, dtype=np.int64) + 10, np.zeros(6, np.int64)
    block = np.zeros(6, np.int64)
    here = block.ctypes.data
    patches = [
        Patch(0, here, 8),
        Patch(1, here + 8, 16),
        Patch(2, here + 16),
        (1, here + 24, 0),
        Patch(2, here + 32),
    ]
    executor = Executor(table((kernels["copy"], here, 1, 0)), patches, [block])
    assert executor.run(source, target, -0.0) == 0
    assert target.tolist() == [0, 0, 11, 0, 0, 0]
    assert block[2] == block[4] == np.array(-0.0).view(np.int64)
    assert block[3] == target.ctypes.data
    # Other arguments next time; a view's own start counts, not its base's.
    other = np.zeros(8, np.int64)
    assert executor.run(source[2:], other[3:], 2.5) == 0
    assert other.tolist() == [0, 0, 0, 0, 0, 13, 0, 0]
    assert block[2] == np.array(2.5).view(np.int64)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 5e-324, -1.5])
def test_float_bits_survive(value, entry):
    block = np.zeros(1, np.int64)
    Executor(table(), [Patch(0, block.ctypes.data)]).run(value)
    assert block.tobytes() == np.array([value]).tobytes()


def test_wrong_argument_count_runs_nothing(kernels, entry):
    count = np.zeros(1, np.int64)
    block = np.array([count.ctypes.data], np.int64)
    rows = table((kernels["add_one"], block.ctypes.data, 1, 0))
    executor = Executor(rows, [Patch(1, block.ctypes.data)])
    status = executor.run(count)
    assert status == -1 and count[0] == 0
    with pytest.raises(TypeError, match="number of arguments"):
        Executor.decode(status)
    assert Executor(rows, argument_count=2).run(count, count) == 0


@pytest.mark.parametrize(
    ("rows", "patches", "options"),
    [
        (np.zeros((2, 3), np.int64), [], {}),
        (np.zeros(4, np.int64), [], {}),
        (table(), [Patch(-1, 0)], {}),
        (table(), [Patch(2, 0)], {"argument_count": 2}),
    ],
)
def test_malformed_tables_are_refused(rows, patches, options):
    with pytest.raises(ValueError, match=r"table"):
        Executor(rows, patches, **options)


def test_gil_is_released_only_when_asked(kernels):
    def run(release: bool) -> int:
        flag = np.zeros(1, np.int64)
        block = np.array([flag.ctypes.data, 20_000_000 if not release else 20_000_000_000], np.int64)
        executor = Executor(
            table((kernels["wait"], block.ctypes.data, 1, 0)),
            keepalive=[block, flag],
            release_gil=release,
        )
        started = threading.Event()
        statuses: list[int] = []
        # Without this the interpreter itself would hand the lock over between two bytecodes.
        interval = sys.getswitchinterval()
        sys.setswitchinterval(30)

        def wait() -> None:
            started.set()
            statuses.append(executor.run())

        try:
            thread = threading.Thread(target=wait)
            thread.start()
            started.wait()
            flag[0] = 1
            thread.join()
        finally:
            sys.setswitchinterval(interval)
        return statuses[0]

    assert run(release=True) == 0
    assert Executor.decode(run(release=False)) == (0, 7)


def test_two_executors_in_two_threads(kernels):
    rounds, repeat = 300, 1000
    counts = [np.zeros(1, np.int64) for _ in range(2)]
    failures: list[int] = []

    def work(count: np.ndarray) -> None:
        block = np.zeros(1, np.int64)
        executor = Executor(
            table((kernels["add_one"], block.ctypes.data, repeat, 0)),
            [Patch(0, block.ctypes.data)], [block], release_gil=True,
        )  # fmt: skip
        failures.extend(status for status in (executor.run(count) for _ in range(rounds)) if status)

    threads = [threading.Thread(target=work, args=(count,)) for count in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert [int(count[0]) for count in counts] == [rounds * repeat] * 2


@pytest.mark.slow
def test_the_builtin_keeps_the_record_alive_and_lets_it_go(entry):
    block = np.zeros(1, np.int64)
    run = Executor(table(), [Patch(0, block.ctypes.data)]).run
    gc.collect()
    assert run(1.0) == 0 and block[0] == np.array(1.0).view(np.int64)
    executor = Executor(table())
    record = weakref.ref(executor.record)
    del executor
    gc.collect()
    assert record() is None


def test_the_way_in_keeps_what_it_writes_to(entry):
    """Kept without its Executor, as profiles keep the calls of single steps."""
    block = np.zeros(1, np.int64)
    run = Executor(table(), patches=[Patch(0, block.ctypes.data, 0)], keepalive=[block]).run
    alive = weakref.ref(block)
    del block
    gc.collect()
    assert alive() is not None and run(1.0) == 0
    assert alive()[0] == np.array(1.0).view(np.int64)
    del run
    gc.collect()
    assert alive() is None


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the process's size from /proc")
def test_a_hundred_thousand_calls_leak_neither_memory_nor_files_nor_references(kernels):
    block = np.zeros(2, np.int64)
    here = block.ctypes.data
    executor = Executor(
        table((kernels["fail"], here + 8, 1, 0)), [Patch(0, here), Patch(1, here + 8)], [block]
    )
    array, run = np.zeros(3), executor.run

    def pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    def calls(n: int) -> None:
        for k in range(n):
            run(array, float(k))

    calls(1000)
    gc.collect()
    before = pages(), len(list(Path("/proc/self/fd").iterdir())), sys.getrefcount(array)
    calls(100_000)
    gc.collect()
    after = pages(), len(list(Path("/proc/self/fd").iterdir())), sys.getrefcount(array)
    assert after[1:] == before[1:]
    assert (after[0] - before[0]) * 4096 < 1_000_000


def test_who_is_dropped_after_this_module_was_taken_down_still_knows_how_often_it_ran(monkeypatch):
    made = Executor(np.zeros((0, 5), np.int64), keepalive=[])
    assert made.run() == 0
    monkeypatch.setattr(executor_module, "_ENDED", None)  # as CPython does at exit
    assert made.ended == 1
