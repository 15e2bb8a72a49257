"""Rank 0 misbehaves as the argument says; what the others then see, and after how many seconds."""

import os
import signal
import sys
import time

import jtorch
import jtorch.distributed as dist

KIND = sys.argv[1]
dist.init_process_group("mpi", timeout=2)
RANK = dist.get_rank()
x = jtorch.ones(4, 3)
dist.all_reduce(x)
guilty = RANK == 0
began = time.monotonic()
try:
    if guilty and KIND == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if guilty and KIND == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if guilty and KIND == "slow":
        time.sleep(60)
    if guilty and KIND == "raises":
        raise ValueError("rank 0 had enough")
    if KIND == "monitored" and not guilty:
        time.sleep(60)
    if KIND == "monitored":
        dist.monitored_barrier(timeout=1)
    elif KIND == "interrupted":
        if RANK == 1:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
            dist.all_reduce(x)
        time.sleep(60)
    elif KIND == "terminated":  # what mpiexec does to the others when a process died elsewhere
        if RANK == 1:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGTERM))
            print("[rank 1: 0.3 s]", flush=True)
            dist.all_reduce(x)
        time.sleep(60)
    elif KIND == "receives":
        dist.recv(x, 1) if guilty else time.sleep(60)
    elif KIND == "dtype":
        dist.all_reduce(x.double() if guilty else x)
    elif KIND == "shape":  # of the same size: MPI itself sees nothing
        dist.all_reduce(x.t() if guilty else x)
    elif KIND == "other":
        dist.barrier() if guilty else dist.all_reduce(x)
    elif KIND == "caught":
        try:
            dist.all_reduce(x) if not guilty else time.sleep(2.5)
        except dist.DistBackendError:
            dist.barrier()
    else:
        dist.all_reduce(x)
finally:
    print(f"[rank {RANK}: {time.monotonic() - began:.2f} s]", flush=True)
