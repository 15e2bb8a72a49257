"""The commands of this folder: what each takes, and what it runs. Nothing here imports NumPy."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import options as opt
from benchmarks.command import Command, Options
from benchmarks.machine import thread_variables
from benchmarks.options import Parser

if TYPE_CHECKING:
    from benchmarks.program import Workload

EQUATIONS, QUICK_EQUATIONS = (200, 1_000, 5_000, 16_000), (200, 1_000)
QUICK_ROWS = ("mlp", "lenet")  # where no names are given
WIDTHS, BATCHES, DEPTHS = (16, 64, 256, 1024, 2048), (8, 32, 128), (1, 2, 4)
PICTURES = (".svg", ".png", ".html")


def _arguments(p: Parser, names: str = "", default: str = "all") -> None:
    if names:
        about = f"of the workloads of run and the networks of compiled; default: {default}"
        p.add_argument("names", nargs="*", metavar=names, help=about)
    opt.add_output(p, markdown=False)
    opt.add_quick(p, "few rows and short samples: shows that it works, no figures")
    opt.add_threads(p)


def _chosen(p: Parser, options: Options, default: Sequence[str]) -> list[Workload]:
    """The rows of the names that are given, or of the ``default`` ones."""
    from benchmarks.known import KNOWN, rows_of

    p.check_names(options.names, tuple(KNOWN), "workload or network")
    return rows_of(options.names or (QUICK_ROWS if options.quick else default))


def _compile_time_arguments(p: Parser) -> None:
    _arguments(p, "NETWORK")
    p.add_argument(
        "--equations", type=opt.numbers, metavar="N,N",
        help=f"of generated programs; default: {','.join(map(str, EQUATIONS))}",
    )  # fmt: skip


def _run_compile_time(p: Parser, options: Options, compiler: Any) -> int:
    opt.needs_rich(p)
    with opt.environment(thread_variables(options.threads)):  # each measurement has a cache of its own
        from benchmarks.costs import compile_time
        from benchmarks.known import KNOWN

        sizes = options.equations or (QUICK_EQUATIONS if options.quick else EQUATIONS)
        if options.names and not options.equations:
            sizes = ()
        rows = [] if options.equations and not options.names else _chosen(p, options, tuple(KNOWN))
        return compile_time.run(rows, sizes, options.threads, options.quick, options.json)


def _overhead_arguments(p: Parser) -> None:
    _arguments(p, "WORKLOAD", "the workloads")


def _run_overhead(p: Parser, options: Options, compiler: Any) -> int:
    opt.needs_rich(p)
    with opt.threads_and_empty_cache(options.threads):
        from benchmarks.costs import overhead
        from benchmarks.workloads import WORKLOADS

        rows = _chosen(p, options, tuple(WORKLOADS))
        return overhead.run(rows, options.threads, options.quick, options.json, compiler)


def _picture_file(text: str) -> Path:
    path = opt.output_file(text)
    if path.suffix not in PICTURES:
        raise argparse.ArgumentTypeError(f"takes a name that ends in {', '.join(PICTURES)}, not {path.name}")
    return path


def _crossover_arguments(p: Parser) -> None:
    for name, known in (("widths", WIDTHS), ("batches", BATCHES), ("depths", DEPTHS)):
        default = ",".join(map(str, known))
        p.add_argument(f"--{name}", type=opt.numbers, metavar="N,N", help=f"default: {default}")
    p.add_argument(
        "-o", "--output", type=_picture_file, metavar="FILE", help="a picture: .svg, .png or .html"
    )
    p.add_argument("--peers", metavar="NAMES", help="torch, to have PyTorch beside both modes; default: none")
    _arguments(p)


def _run_crossover(p: Parser, options: Options, compiler: Any) -> int:
    opt.needs_rich(p)
    if options.output is not None:
        opt.needs_matplotlib(p)
    peers = opt.peers_of(p, options, ("torch",), ())
    with opt.threads_and_empty_cache(options.threads):
        from benchmarks.costs import crossover

        axes = ((options.widths, WIDTHS), (options.batches, BATCHES), (options.depths, DEPTHS))
        grid = crossover.Grid(*(given or (known[:2] if options.quick else known) for given, known in axes))
        return crossover.run(
            grid, peers, options.threads, options.quick, options.output, options.json, compiler
        )


def _memory_arguments(p: Parser) -> None:
    _arguments(p, "WORKLOAD|NETWORK")
    opt.add_peers(p, "torch")


def _run_memory(p: Parser, options: Options, compiler: Any) -> int:
    opt.needs_rich(p)
    peers = opt.peers_of(p, options, ("torch",))
    with opt.threads_and_empty_cache(options.threads):
        from benchmarks.costs import memory
        from benchmarks.known import KNOWN

        rows = _chosen(p, options, tuple(KNOWN))
        return memory.run(rows, peers, options.threads, options.quick, options.json)


def _cuda_arguments(p: Parser) -> None:
    _arguments(p, "NETWORK", "the networks")
    p.add_argument(
        "--peers", metavar="NAMES",
        help="comma list of torch, torch.compile (its mode reduce-overhead), jax; default: none",
    )  # fmt: skip


def _run_cuda(p: Parser, options: Options, compiler: Any) -> int:
    opt.needs_rich(p)
    with opt.threads_and_empty_cache(options.threads):
        from benchmarks.costs import on_device
        from benchmarks.costs.device_peers import PEERS
        from benchmarks.models.rows import MODELS

        rows = _chosen(p, options, tuple(MODELS))
        peers = opt.peers_of(p, options, tuple(PEERS), ())
        if missing := on_device.missing():
            p.error(missing)
        return on_device.run(rows, peers, options.threads, options.quick, options.json)


COMMANDS = (
    Command(
        "compile-time",
        "Gives what first calls cost in new processes, stage by stage, with cached kernels and without; of "
        "generated programs, too.",
        _compile_time_arguments,
        _run_compile_time,
    ),
    Command(
        "overhead",
        "Gives what a step costs beside its arithmetic: the tape and the parts of an eager step, the stages "
        "of a compiled call.",
        _overhead_arguments,
        _run_overhead,
    ),
    Command(
        "crossover",
        "Says from which width on, by batch and depth, a perceptron's step is as fast eager as compiled.",
        _crossover_arguments,
        _run_crossover,
    ),
    Command(
        "memory",
        "Gives the memory of a training step in both modes and in PyTorch, each in processes of its own.",
        _memory_arguments,
        _run_memory,
    ),
    Command(
        "cuda",
        "Times steps of the fifteen networks on a CUDA device, where there is one, beside PyTorch and JAX. "
        "No hardware has run it: it was written, and is tested, without a GPU.",
        _cuda_arguments,
        _run_cuda,
    ),
)
