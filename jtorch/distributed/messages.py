"""Messages from one process to another, with PyTorch's names and arguments.

Source: https://docs.pytorch.org/docs/stable/distributed.html#point-to-point-communication
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from jtorch.distributed import mpi
from jtorch.distributed.buffers import Target, check_tensor, raw, read, told
from jtorch.distributed.errors import DistBackendError
from jtorch.distributed.group import ProcessGroup
from jtorch.distributed.steps import Steps
from jtorch.distributed.work import Order, Work, poll, seconds
from jtorch.distributed.world import entered, get_global_rank, root_of
from jtorch.eager.public import Tensor


class Message(Work):
    """A message under way. Messages have no number: other processes need not take part."""

    def __init__(self, group: ProcessGroup, order: Order, steps: Steps, peer: int | None) -> None:
        super().__init__(group, order, -1, steps)
        self.peer = peer
        self.status: Any = None

    def arrived(self) -> bool:
        if self.status is None:
            self.status = mpi.load().Status()
        if self._done:
            return True
        try:
            return bool(self._request.Test(self.status))
        except Exception as error:
            self._finish(self._translated(error))
            return True

    def _finish(self, error: BaseException | None) -> None:
        self._done, self._error, self._request = True, error, None

    def told(self) -> str:
        return f"{self.order} on {self.group.place()}"

    def _look(self, waited: float) -> None:
        gone = self.group.dead()
        if gone and (self.peer is None or self.peer in gone) and not self.is_completed():
            self._give_up(f"waited {waited:.1f} s for rank {gone[0]}, whose process is dead")

    def _give_up(self, why: str) -> None:
        board, facts = self.group.board, ""
        if board is not None:
            ranks = [r for r in board.places if r != self.group.rank() and self.peer in (None, r)]
            facts = "; ".join(board.told(rank) for rank in ranks)
        text = f"{self.told()} {why}. {facts}"
        self.group.broken = text
        raise DistBackendError(text)

    def source_rank(self) -> int:
        """The global rank of the process that a received message came from."""
        self.wait()
        return get_global_rank(self.group, self.status.Get_source())


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Send ``tensor`` to ``dst`` (a global rank); do not change it before ``wait()`` has returned.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.isend
    """
    if (g := entered("isend", group)) is None:
        return None
    check_tensor(tensor, "tensor")
    peer = _other(g, "dst", root_of(g, "dst", dst, group_dst))
    order = Order("send", tuple(tensor.shape), tensor.dtype.name, f"to {peer}, tag {tag}")
    return _started(Message(g, order, _sending(g, read(tensor), peer, tag), peer))


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Receive into ``tensor`` from ``src`` (a global rank), or from any process.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.irecv
    """
    if (g := entered("irecv", group)) is None:
        return None
    target = Target(check_tensor(tensor, "tensor"), reads=False)
    anyone = src is None and group_src is None
    peer = None if anyone else _other(g, "src", root_of(g, "src", src, group_src))
    where = "any process" if peer is None else peer
    order = Order("recv", tuple(tensor.shape), tensor.dtype.name, f"from {where}, tag {tag}")
    found: list[Message] = []
    message = Message(g, order, _receiving(g, target, peer, tag, found), peer)
    found.append(message)
    return _started(message)


def send(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Send ``tensor`` to ``dst`` and wait until its memory is free again.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.send
    """
    if (work := isend(tensor, dst, group, tag, group_dst)) is not None:
        work.wait()


def recv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Receive into ``tensor``; the global rank of the sender (-1 where this process is not in the group).

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.recv
    """
    work = irecv(tensor, src, group, tag, group_src)
    return -1 if work is None else work.source_rank()


def _other(group: ProcessGroup, name: str, peer: int) -> int:
    if peer == group.rank():
        raise ValueError(
            f"Invalid {name} rank: {name} rank should not be the same as the rank of the current process."
        )
    return peer


def _started(message: Message) -> Message:
    message.group._check_usable(message.order)
    with mpi.LOCK:
        message.group.pending.append(message)
        message.start()
    return message


def _sending(group: ProcessGroup, flat: np.ndarray, peer: int, tag: int) -> Steps:
    yield group.messages.Isend(raw(flat), peer, tag)


def _receiving(
    group: ProcessGroup, target: Target, peer: int | None, tag: int, message: list[Message]
) -> Steps:
    source = mpi.load().ANY_SOURCE if peer is None else peer
    yield group.messages.Irecv(raw(target.flat), source, tag)
    came = message[0].status.Get_count(mpi.load().BYTE)
    if came != target.flat.nbytes:
        raise DistBackendError(
            f"{message[0].told()}: rank {message[0].status.Get_source()} sent {came} bytes, and "
            f"{told(target.tensor)} has {target.flat.nbytes}"
        )
    target.commit()
    return [target.tensor]


class P2POp:
    """One of the messages of ``batch_isend_irecv``: ``op`` is ``isend`` or ``irecv``.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.P2POp
    """

    def __init__(
        self, op: Callable, tensor: Tensor, peer: int | None = None, group: Any = None, tag: int = 0,
        group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                             "``torch.distributed.irecv``.")  # fmt: skip
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag
        self.group_peer = group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Start all of these messages; their works.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.batch_isend_irecv
    """
    works = [op.op(op.tensor, op.peer, op.group, op.tag, op.group_peer) for op in p2p_op_list]
    return [work for work in works if work is not None]


def monitored_barrier(
    group: Any = None, timeout: timedelta | float | None = None, wait_all_ranks: bool = False
) -> None:
    """``barrier`` in which rank 0 of the group finds out, and says, which processes did not come.

    With ``wait_all_ranks`` it names all of them, else the first.
    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.monitored_barrier
    """
    if (g := entered("monitored_barrier", group)) is None:
        return
    limit = seconds(timeout, g.timeout)
    g._check_usable(Order("monitored_barrier"))
    if g.rank() == 0:
        _collect(g, limit, wait_all_ranks)
    else:
        _report(g, limit)


_HERE, _GO = 32_001, 32_002  # tags; on ``control``, where nobody else sends messages


def _collect(group: ProcessGroup, limit: float, all_ranks: bool) -> None:
    word = np.zeros(1, np.uint8)
    begin, missing = time.monotonic(), []
    for rank in range(1, group.size()):
        request = group.control.Irecv(word.copy(), rank, _HERE)
        if not poll(request.Test, max(begin + limit - time.monotonic(), 0.0), lambda _: None):
            missing.append(rank)
            if not all_ranks:
                break
    if missing:
        group.broken = (
            f"Rank(s) {', '.join(map(str, missing))} failed to pass monitoredBarrier in {limit * 1000:.0f} ms"
            + "".join(f"; {group.board.told(r)}" for r in missing if group.board and r in group.board.places)
        )
        raise DistBackendError(group.broken)
    for rank in range(1, group.size()):
        group.control.Isend(word, rank, _GO)


def _report(group: ProcessGroup, limit: float) -> None:
    word = np.zeros(1, np.uint8)
    group.control.Isend(word, 0, _HERE)
    answer = group.control.Irecv(word.copy(), 0, _GO)
    if not poll(answer.Test, limit, lambda _: None):
        group.broken = (
            f"Rank {group.rank()} successfully reached monitoredBarrier, but received errors while waiting "
            "for send/recv from rank 0. Please check rank 0 logs for faulty rank."
        )
        raise DistBackendError(group.broken)
