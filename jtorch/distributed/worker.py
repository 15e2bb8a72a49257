"""One process of the launcher: sets the variables of its rank, then runs the script as ``python`` does."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from jtorch.distributed import mpi

# what Open MPI, MPICH and its kin, and Slurm tell a process before MPI has started
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
_LOCAL = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")


def _first(names: tuple[str, ...], default: str) -> str:
    return next((os.environ[name] for name in names if name in os.environ), default)


def set_rank() -> None:
    """RANK and LOCAL_RANK, which scripts read before they join a process group."""
    rank = _first(_RANKS, "0")
    os.environ["RANK"], os.environ["LOCAL_RANK"] = rank, _first(_LOCAL, rank)
    os.environ["ROLE_RANK"], os.environ["ROLE_WORLD_SIZE"] = rank, os.environ.get("WORLD_SIZE", "1")


def main(arguments: list[str]) -> None:
    """Run the script. One that ends by ``sys.exit`` with a status does not wait for the others' end."""
    set_rank()
    try:
        _run(arguments)
    except SystemExit as error:
        if error.code not in (None, 0):
            mpi.note_failure()
        raise


def _run(arguments: list[str]) -> None:
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
