"""A process that dies, hangs or asks for something else is an error that names it, in the timeout of 2 s."""

import re

import pytest

START = 12  # seconds for starting and ending processes on a busy machine


def seconds(ended, rank):
    return float(re.search(rf"\[rank {rank}: ([\d.]+) s\]", ended.text)[1])


def fails(launch, kind, *words, rank=1, below, **options):
    ended = launch(2, "faults.py", kind, check=False, **options)
    assert ended.status != 0
    for word in words:
        assert re.search(word, ended.text), f"{word!r} not in:\n{ended.text}"
    assert seconds(ended, rank) < below
    assert ended.seconds < below + START
    return ended


@pytest.mark.slow
def test_a_killed_process(launch):
    said = r"all_reduce\(float32\[4, 3\], SUM\) #1 on rank 1 of 2 waited 0\.\d s for rank 0, whose process"
    fails(launch, "killed", f"{said} is dead", below=1)


def test_a_stopped_process(launch):
    waited = r"all_reduce\(float32\[4, 3\], SUM\) #1 on rank 1 of 2 waited 2\.\d s"
    why = r"Rank 0 \(process \d+, stopped\) started all_reduce\(float32\[4, 3\], SUM\) #0 2\.\d s ago"
    fails(launch, "stopped", waited, why, below=3)


def test_a_process_that_does_not_come(launch):
    fails(launch, "slow", r"waited 2\.\d s, the timeout is 2 s\. Rank 0 \(process \d+\) started", below=3)


def test_a_process_that_does_not_come_to_a_compiled_step(launch):
    ended = launch(2, "compiled_fault.py", check=False)
    said = r"all_reduce\(float32\[51\], AVG\) #\d+ on rank 0 of 2 waited 2\.\d s, the timeout is 2 s\. Rank 1"
    assert re.search(said, ended.text), ended.text
    assert "nothing has changed" in ended.text, ended.text
    assert seconds(ended, 0) < 3


def test_a_process_that_raises(launch):
    ended = fails(launch, "raises", "ValueError: rank 0 had enough", rank=0, below=1)
    assert ended.status == 1


@pytest.mark.parametrize(
    ("kind", "other"), [("dtype", r"float64\[4, 3\], SUM"), ("shape", r"float32\[3, 4\], SUM"), ("other", "")]
)
def test_another_order_is_seen(launch, kind, other):
    op = "barrier" if kind == "other" else "all_reduce"
    fails(launch, kind, rf"Rank 0 \(process \d+\) started {op}\({other}\) #1", "in the same order", below=1)


@pytest.mark.parametrize("variable", ["JTORCH_DISTRIBUTED_DEBUG", "TORCH_DISTRIBUTED_DEBUG"])
def test_the_debug_mode_says_who_differs_before_anything_is_sent(launch, variable):
    orders = r"rank 0: all_reduce\(float32\[3, 4\], SUM\) #1, rank 1: all_reduce\(float32\[4, 3\], SUM\) #1"
    fails(launch, "shape", orders, r"Rank \d differs", below=1, **{variable: "DETAIL"})


def test_a_monitored_barrier_names_who_is_missing(launch):
    said = r"Rank\(s\) 1 failed to pass monitoredBarrier in 1000 ms; rank 1 \(process \d+\) started all"
    fails(launch, "monitored", said, rank=0, below=2)


def test_ctrl_c_gets_through(launch):
    fails(launch, "interrupted", "KeyboardInterrupt", below=1)


def test_a_terminated_process_says_what_it_waited_for(launch):
    said = r"terminated while all_reduce\(float32\[4, 3\], SUM\) #1 on rank 1 of 2 was under way\. Rank 0"
    fails(launch, "terminated", said, below=1)


def test_a_message_that_is_not_sent(launch):
    said = r"recv\(float32\[4, 3\], from 1, tag 0\) on rank 0 of 2 waited 2\.\d s"
    fails(launch, "receives", said, rank=0, below=3)


def test_a_group_is_not_used_after_a_failure(launch):
    said = "the group can't be used any more, since an earlier collective was given up"
    fails(launch, "caught", said, below=3)
