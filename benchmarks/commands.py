"""The commands of ``python -m benchmarks``: what each takes, and what it runs.

Nothing here imports NumPy before the threads are set, so sections are imported as they run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import options as opt
from benchmarks.command import Command, Options
from benchmarks.costs import commands as costs
from benchmarks.machine import thread_variables
from benchmarks.options import Parser
from benchmarks.own.protocol import PROTOCOL, OwnFileError, check as check_own

NAMES = ("call", "toy", "rnn_cell", "mlp", "lenet", "rnn", "width")
STORY = ("mlp", "lenet")  # a small network, where calls decide, and one where arithmetic does
EAGER_GROUPS = ("ops", "chain", "steps", "arrays", "small", "convolutions", "import")
CASES = 44  # of soundness
PEERS = ("torch", "jax")


def _names(p: Parser, metavar: str, known: str, default: str = "all") -> None:
    p.add_argument("names", nargs="*", metavar=metavar, help=f"of {known}; default: {default}")


def _step_arguments(p: Parser, default: str, peers: str) -> None:
    _names(p, "WORKLOAD", ", ".join(NAMES), default)
    opt.add_output(p)
    opt.add_quick(p)
    p.add_argument("--peers", metavar="NAMES", help=f"comma list of {', '.join(PEERS)}; default: {peers}")
    opt.add_threads(p)


def _run_steps(p: Parser, options: Options, compiler: Any, story: bool) -> int:
    p.check_names(options.names, NAMES, "workload")
    opt.needs_rich(p)
    peers = opt.peers_of(p, options, PEERS, () if story else PEERS)
    with opt.threads_and_empty_cache(options.threads):
        from benchmarks import steps

        return steps.run(
            options.names or (STORY if story else NAMES), peers, options.threads, options.quick,
            story, options.markdown, options.json, compiler,
        )  # fmt: skip


def _own_arguments(p: Parser) -> None:
    p.epilog = PROTOCOL
    p.add_argument("target", metavar="FILE:FUNCTION", help="a training step, or what makes one: see below")
    opt.add_output(p, markdown=False)
    opt.add_quick(p)
    opt.add_peers(p, "torch")
    opt.add_threads(p)
    p.add_argument(
        "--processes", type=opt.positive, default=5, metavar="N", help="that give samples; default: 5"
    )


def _run_own(p: Parser, options: Options, compiler: Any) -> int:
    try:
        check_own(options.target)
    except OwnFileError as error:
        p.error(str(error))
    opt.needs_rich(p)
    peers = opt.peers_of(p, options, ("torch",))
    with opt.threads_and_empty_cache(options.threads):
        from benchmarks.own.section import run

        return run(
            options.target, bool(peers), options.threads, options.quick, options.processes, options.json
        )  # fmt: skip


def _compare_arguments(p: Parser) -> None:
    p.add_argument("before", type=Path, metavar="BEFORE.json", help="what --json of a run wrote")
    p.add_argument("after", type=Path, metavar="AFTER.json", help="the same of another run")
    p.add_argument(
        "--fail-on", type=opt.share, metavar="5%%", help="exit with 1 where a row is slower by more than that"
    )


def _run_compare(p: Parser, options: Options, compiler: Any) -> int:
    opt.needs_rich(p)
    from benchmarks.compare.runs import RunError, read
    from benchmarks.compare.section import run

    try:
        before, after = read(options.before), read(options.after)
    except RunError as error:
        p.error(str(error))
    return run(before, after, options.fail_on)


def _report_arguments(p: Parser) -> None:
    p.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN.json", help="the run, or an earlier one and the run"
    )
    p.add_argument(
        "-o", "--output", type=opt.output_file, default=Path("report.html"), metavar="FILE",
        help="default: report.html",
    )  # fmt: skip


def _run_report(p: Parser, options: Options, compiler: Any) -> int:
    if len(options.runs) > 2:
        p.error("takes one run, or two to compare")
    opt.needs_matplotlib(p)
    from benchmarks.compare.runs import RunError, read
    from benchmarks.html.page import page

    try:
        *before, run = [read(path) for path in options.runs]
    except RunError as error:
        p.error(str(error))
    options.output.write_text(page(run, *before), encoding="utf-8")
    print(options.output)
    return 0


def _eager_arguments(p: Parser) -> None:
    _names(p, "GROUP", ", ".join(EAGER_GROUPS))
    opt.add_output(p)
    opt.add_quick(p)
    opt.add_peers(p, "torch")
    opt.add_threads(p)


def _run_eager(p: Parser, options: Options, compiler: Any) -> int:
    p.check_names(options.names, EAGER_GROUPS, "group of eager")
    opt.needs_rich(p)
    peers = opt.peers_of(p, options, ("torch",))
    with opt.environment(thread_variables(options.threads)):
        from benchmarks.eager.section import run

        groups = options.names or EAGER_GROUPS
        return run(groups, bool(peers), options.threads, options.quick, options.markdown, options.json)


def _compiled_arguments(p: Parser) -> None:
    p.add_argument("names", nargs="*", metavar="NETWORK", help="some of the fifteen; a wrong name lists them")
    opt.add_output(p)
    opt.add_quick(p)
    p.add_argument(
        "--peers",
        metavar="NAMES",
        help="comma list of torch, channels_last, torch.compile, jax; default: torch,channels_last",
    )
    opt.add_threads(p)
    p.add_argument(
        "--processes",
        type=opt.positive,
        default=0,
        metavar="N",
        help="that give samples in turn, 8 for compare; default: one, with jtorch in the command's own",
    )


def _run_compiled(p: Parser, options: Options, compiler: Any) -> int:
    opt.needs_rich(p)
    with opt.threads_and_empty_cache(options.threads):
        from benchmarks.models.rows import MODELS
        from benchmarks.models.section import known_peers, run

        p.check_names(options.names, tuple(MODELS), "network")
        peers = opt.peers_of(p, options, known_peers(), ("torch", "channels_last"))
        return run(
            options.names, peers, options.threads, options.quick, options.processes, options.markdown,
            options.json,
        )  # fmt: skip


def _busy_arguments(p: Parser) -> None:
    opt.add_output(p)
    opt.add_quick(p)
    opt.add_peers(p, "torch")
    opt.add_threads(p)


def _run_busy(p: Parser, options: Options, compiler: Any) -> int:
    opt.needs_rich(p)
    peers = opt.peers_of(p, options, ("torch",))
    with opt.environment(thread_variables(options.threads)):
        from benchmarks import busy

        effort = busy.QUICK if options.quick else busy.FULL
        return busy.run(bool(peers), options.threads, effort, options.markdown, options.json, compiler)


def _accuracy_arguments(p: Parser) -> None:
    p.add_argument("names", nargs="*", metavar="CASE", help="some of the cases; a wrong name lists them")
    opt.add_output(p, markdown=False)
    opt.add_quick(p)
    opt.add_peers(p, "torch")
    opt.add_threads(p)


def _run_accuracy(p: Parser, options: Options, compiler: Any) -> int:
    peers = opt.peers_of(p, options, ("torch",))
    with opt.threads_and_empty_cache(options.threads):
        from benchmarks.accuracy.section import BY_NAME, run

        p.check_names(options.names, tuple(BY_NAME), "case")
        cases = [BY_NAME[name] for name in options.names or BY_NAME]
        return run(cases, options.quick, bool(peers), options.json, options.threads)


def _soundness_arguments(p: Parser) -> None:
    p.add_argument("names", nargs="*", metavar="NUMBER", help=f"of cases, 1 to {CASES}; default: all")
    opt.add_output(p, markdown=False)
    opt.add_peers(p, ", ".join(PEERS))


def _run_soundness(p: Parser, options: Options, compiler: Any) -> int:
    numbers = options.names
    if not all(n.isdecimal() and 1 <= int(n) <= CASES for n in numbers):
        p.error(f"takes numbers from 1 to {CASES}, not {' '.join(numbers)}")
    opt.needs_rich(p)
    from benchmarks.soundness.section import run

    return run([int(n) for n in numbers], opt.peers_of(p, options, PEERS), options.json)


def _ddp_arguments(p: Parser) -> None:
    p.add_argument(
        "names", nargs="*", metavar="NETWORK", help="of those of compiled; a wrong name lists them"
    )
    opt.add_output(p)
    opt.add_quick(p)
    opt.add_peers(p, "torch")
    opt.add_threads(p)


def _run_ddp(p: Parser, options: Options, compiler: Any) -> int:
    if options.threads not in (None, 1):
        p.error("ddp gives each process one thread, so that two have no more cores each than one")
    opt.needs_rich(p)
    peers = opt.peers_of(p, options, ("torch",))
    with opt.environment(thread_variables(1)):
        from benchmarks.ddp.section import run
        from benchmarks.models.rows import MODELS

        p.check_names(options.names, tuple(MODELS), "network")
        return run(options.names, bool(peers), options.quick, options.markdown, options.json)


def _guards_arguments(p: Parser) -> None:
    opt.add_quick(p)
    p.add_argument("--seed", type=int, default=0, help="of the values that are changed")


def _run_guards(p: Parser, options: Options, compiler: Any) -> int:
    from benchmarks import guards

    return guards.report(options.quick, options.seed)


def _dynamic_arguments(p: Parser) -> None:
    p.add_argument("names", nargs="*", metavar="WORKLOAD", help="beginnings of names; a wrong one lists them")
    opt.add_quick(p)
    opt.add_peers(p, "torch")
    opt.add_threads(p)
    p.add_argument("--dynamic", action="store_true", help="time jtorch.compile(dynamic=True)")
    p.add_argument("--sizes", type=opt.positive, default=40, metavar="N", help="how many different ones")


def _run_dynamic(p: Parser, options: Options, compiler: Any) -> int:
    peers = opt.peers_of(p, options, ("torch",))
    from benchmarks import dynamic

    known = tuple(dynamic.WORKLOADS)
    p.check_names([n for n in options.names if not any(k.startswith(n) for k in known)], known, "workload")
    count = dynamic.QUICK_SIZES if options.quick else options.sizes
    return dynamic.report(options.names, count, options.dynamic, bool(peers), options.threads)


COMMANDS = {
    command.name: command
    for command in (
        Command(
            "verdict",
            "Says whether compiling pays for a small network and for an ordinary one, or for others.",
            lambda p: _step_arguments(p, ", ".join(STORY), peers="none"),
            lambda p, options, compiler: _run_steps(p, options, compiler, story=True),
        ),
        Command(
            "run",
            "Times a training step of each workload, in both modes and other libraries; what graphs cost.",
            lambda p: _step_arguments(p, "all", peers="those installed"),
            lambda p, options, compiler: _run_steps(p, options, compiler, story=False),
        ),
        Command(
            "own",
            "Says whether compiling pays for a training step of yours, with your data; where its time goes.",
            _own_arguments,
            _run_own,
        ),
        Command(
            "compare",
            "Says which rows changed between two runs, by their JSON.",
            _compare_arguments,
            _run_compare,
        ),
        Command(
            "report",
            "Writes a run, or two, as one HTML page that needs no network.",
            _report_arguments,
            _run_report,
        ),
        Command(
            "compiled",
            "Times training steps of fifteen networks of ordinary size, beside PyTorch's.",
            _compiled_arguments,
            _run_compiled,
        ),
        Command(
            "eager",
            "Times eager mode alone against PyTorch and NumPy, with a goal for each line.",
            _eager_arguments,
            _run_eager,
        ),
        Command(
            "dynamic",
            "Gives what sizes cost that were never seen before, and compares both modes in float64.",
            _dynamic_arguments,
            _run_dynamic,
        ),
        Command(
            "guards",
            "Gives what the checks before a compiled call cost, by reads and by parameters.",
            _guards_arguments,
            _run_guards,
        ),
        Command(
            "busy",
            "Times a training step alone, and beside two busy processes a core.",
            _busy_arguments,
            _run_busy,
        ),
        Command(
            "ddp",
            "Gives what averaging gradients costs in two processes, what a model says of it, and, for root "
            "on Linux, both over networks of 1 and 10 Gbit/s made of namespaces.",
            _ddp_arguments,
            _run_ddp,
        ),
        Command(
            "accuracy",
            "Gives how far sums are off in both modes, beside PyTorch.",
            _accuracy_arguments,
            _run_accuracy,
        ),
        Command(
            "soundness",
            "Runs the cases in which compiled code could differ from eager code; each library's verdicts.",
            _soundness_arguments,
            _run_soundness,
        ),
        *costs.COMMANDS,
    )
}
