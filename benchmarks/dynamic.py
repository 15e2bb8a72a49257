"""What a size costs that was never seen before: ``python -m benchmarks dynamic [WORKLOAD...]``.

Each workload is one program over moving sizes, run by four: jtorch's eager mode and ``jtorch.compile``, and
where it is installed PyTorch's eager mode and ``torch.compile(dynamic=True)``. At each size both modes of a
library make a first call and a few more; the figures are medians over the sizes after the second, when a
compiled program may have settled. Before them a program runs at the size before once more, untimed: a user's
loop runs one program, whose code and memory are in the caches, and not two in turns. What jtorch's compiled
program computes is compared with its eager mode in a run of its own, in float64: in float32 the roundings of
a hundred training steps are what differs most.
"""

from __future__ import annotations

import importlib
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import words
from benchmarks.own.load import module_of
from benchmarks.progress import Progress

AGAIN = 3  # calls of a size after the first
QUICK_SIZES = 5
CHECKED = 8  # sizes of the run in float64
TOLERANCE = 1e-9  # of losses and outputs there, relative


@dataclass(frozen=True)
class Workload:
    """``make(torch)`` gives (the function, its arguments for a size); ``sizes`` that many different ones."""

    make: Callable[[Any], tuple[Callable, Callable[[Any], tuple]]]
    sizes: Callable[[random.Random, int], list[Any]]
    grad: bool = True


def _between(low: int, high: int) -> Callable[[random.Random, int], list[int]]:
    return lambda r, count: r.sample(range(low, high), min(count, high - low))


def _trainer(torch: Any, model: Any, loss: Callable) -> Callable:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        found = loss(*batch)
        found.backward()
        optimizer.step()
        return found

    return step


def example_of(name: str, torch: Any) -> Any:
    """``examples/{name}.py`` as a module of another library's program: only the library's name differs."""
    file = Path(__file__).parents[1] / "examples" / f"{name}.py"
    module = module_of(f"{name}_of_{torch.__name__}", file)
    sys.modules[module.__name__] = module  # where torch.compile looks for the globals of its functions
    text = file.read_text().replace("jtorch", torch.__name__)
    exec(compile(text, str(file), "exec", dont_inherit=True), module.__dict__)
    return module


def _mlp(torch: Any) -> tuple[Callable, Callable]:
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    step = _trainer(torch, model, lambda x, y: F.cross_entropy(model(x), y))
    return step, lambda n: (torch.randn(n, 64), torch.randint(0, 10, (n,)))


def _episode(torch: Any) -> tuple[Callable, Callable]:
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))

    def loss(states: Any, actions: Any) -> Any:
        returns = torch.arange(states.shape[0], 0, -1).to(states.dtype)
        advantage = (returns - returns.mean()) / (returns.std() + 1e-6)
        return (F.cross_entropy(model(states), actions, reduction="none") * advantage).sum()

    return _trainer(torch, model, loss), lambda n: (torch.randn(n, 4), torch.randint(0, 2, (n,)))


def _transformer(torch: Any) -> tuple[Callable, Callable]:
    nn, F = torch.nn, torch.nn.functional
    layer = nn.TransformerEncoderLayer(64, 4, 256, 0.0, batch_first=True, norm_first=True)
    body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    model = nn.ModuleList([nn.Embedding(65, 64), body, nn.Linear(64, 65)])

    def loss(x: Any, y: Any) -> Any:
        t = x.shape[1]
        mask = torch.triu(torch.full((t, t), float("-inf")), diagonal=1)
        return F.cross_entropy(model[2](model[1](model[0](x), mask=mask)).reshape(-1, 65), y.reshape(-1))

    def batch(size: Any) -> tuple:
        rows, t = size if isinstance(size, tuple) else (8, size)
        return torch.randint(0, 65, (rows, t)), torch.randint(0, 65, (rows, t))

    return _trainer(torch, model, loss), batch


def _images(torch: Any) -> tuple[Callable, Callable]:
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip
    step = _trainer(torch, model, lambda x, y: F.cross_entropy(model(x), y))

    def batch(size: Any) -> tuple:
        n, side = size if isinstance(size, tuple) else (size, 16)
        return torch.randn(n, 1, side, side), torch.randint(0, 10, (n,))

    return step, batch


def _counted(torch: Any) -> tuple[Callable, Callable]:
    """An MLP whose steps are told their number, by which Adam's averages are corrected."""
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    pairs = [(torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()]

    def step(x: Any, y: Any, t: int) -> Any:
        model.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            for p, (m, v) in zip(model.parameters(), pairs, strict=True):
                m.mul_(0.9).add_(p.grad, alpha=0.1)
                v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                root = (v / (1 - 0.999 ** (t + 1))).sqrt() + 1e-8
                p.sub_(1e-3 * m / (1 - 0.9 ** (t + 1)) / root)
        return loss

    return step, lambda t: (torch.randn(64, 64), torch.randint(0, 10, (64,)), t)


def _actions(torch: Any) -> tuple[Callable, Callable]:
    """How likely actions in so many environments are, by a distribution that checks what it gets."""
    nn = torch.nn
    model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 4))

    def acting(x: Any) -> Any:
        policy = torch.distributions.Categorical(logits=model(x))
        return policy.log_prob(policy.probs.argmax(-1)) + policy.entropy()

    return acting, lambda n: (torch.randn(n, 8),)


def _sorted(torch: Any) -> tuple[Callable, Callable]:
    """The best part of a batch by its loss: sorting and sums that go on are library calls."""
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def loss(x: Any, y: Any) -> Any:
        each = F.cross_entropy(model(x), y, reduction="none")
        return each.sort().values[: x.shape[0] // 2].cumsum(0).mean()

    return _trainer(torch, model, loss), lambda n: (torch.randn(n, 64), torch.randint(0, 10, (n,)))


def _lstm(torch: Any) -> tuple[Callable, Callable]:
    nn, F = torch.nn, torch.nn.functional
    model = nn.ModuleList([nn.LSTM(16, 32), nn.Linear(32, 10)])
    step = _trainer(torch, model, lambda x, y: F.cross_entropy(model[1](model[0](x)[0][-1]), y))

    def batch(size: Any) -> tuple:
        length, n = size if isinstance(size, tuple) else (size, 8)
        return torch.randn(length, n, 16), torch.randint(0, 10, (n,))

    return step, batch


def _cells(torch: Any) -> tuple[Callable, Callable]:
    """Two LSTM cells, one on the other, step by step: a Python loop, or what the library has for one."""
    nn = torch.nn
    cells = nn.ModuleList([nn.LSTMCell(1, 32), nn.LSTMCell(32, 32)])
    model = nn.ModuleList([cells, nn.Linear(32, 1)])
    scan = getattr(torch.compiler, "scan", None)

    def loss(series: Any) -> Any:
        zeros = torch.zeros(series.shape[1], 32)
        states: Any = ((zeros, zeros), (zeros, zeros))

        def step(states: Any, x: Any) -> tuple[Any, Any]:
            first = cells[0](x, states[0])
            second = cells[1](first[0], states[1])
            return (first, second), model[1](second[0])

        if scan is not None:
            _, found = scan(step, states, series[:-1])
        else:
            several = []
            for x in series[:-1]:
                states, y = step(states, x)
                several.append(y)
            found = torch.stack(several)
        return (found - series[1:]).square().mean()

    return _trainer(torch, model, loss), lambda n: (torch.randn(n, 8, 1),)


def _tree_level(torch: Any) -> tuple[Callable, Callable]:
    """The cell of a tree LSTM for one level: so many nodes, over so many children."""
    model = example_of("tree_lstm", torch).ChildSumLSTM(32)

    def loss(words: Any, h: Any, c: Any, child: Any, parent: Any) -> Any:
        h, c = model(words, h, c, child, parent)
        return model.readout(h).square().mean() + c.square().mean()

    def batch(size: Any) -> tuple:
        n, e = size
        child, parent = torch.randperm(e), torch.randint(0, n, (e,))
        return torch.randint(0, 6, (n,)), torch.randn(e, 32), torch.randn(e, 32), child, parent

    return _trainer(torch, model, loss), batch


def _tagger(torch: Any) -> tuple[Callable, Callable]:
    """A bidirectional LSTM that tags words, on batches of sentences of one length."""
    example, F = example_of("tagger", torch), torch.nn.functional
    model, words, tags = example.Tagger(32), len(example.VOCABULARY), len(example.TAGS)
    step = _trainer(torch, model, lambda x, y: F.cross_entropy(model(x), y))
    return step, lambda size: (torch.randint(0, words, size), torch.randint(0, tags, size))


def _policy(torch: Any) -> tuple[Callable, Callable]:
    """What actor and critic make of an episode of so many steps."""
    example = example_of("policy_gradient", torch)
    model = example.ActorCritic()
    step = _trainer(torch, model, lambda states, actions: example.policy_loss(model, states, actions))
    return step, lambda n: (torch.randn(n, 4), torch.randint(0, 2, (n,)))


def _ode_step(torch: Any) -> tuple[Callable, Callable]:
    """Forward and backward of one step of an adaptive solver: so many points, and how far to go."""
    nn, example = torch.nn, example_of("neural_ode", torch)
    f = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))

    def loss(y: Any, length: float) -> Any:
        end, slope, error = example.dopri5_step(f, y, f(y), length, 1e-4)
        return end.square().mean() + slope.square().mean() + error

    return _trainer(torch, f, loss), lambda size: (torch.randn(size[0], 2), size[1])


def _serving(torch: Any) -> tuple[Callable, Callable]:
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 16), nn.Softmax(-1)
    )
    return model, lambda n: (torch.randn(n, 64),)


def _sampling(torch: Any) -> tuple[Callable, Callable]:
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(64, 4, 256, 0.0, batch_first=True, norm_first=True)
    model = nn.ModuleList([nn.Embedding(65, 64), layer, nn.Linear(64, 65)])
    model.eval()

    def following(x: Any) -> Any:
        t = x.shape[1]
        mask = torch.triu(torch.full((t, t), float("-inf")), diagonal=1)
        return model[2](model[1](model[0](x), src_mask=mask)[:, -1]).softmax(-1)

    return following, lambda n: (torch.randint(0, 65, (1, n)),)


def _beams(torch: Any) -> tuple[Callable, Callable]:
    """One step of a beam search: the best characters after each of so many contexts."""
    model = example_of("beam_search", torch).GPT(65, 128).eval()

    def best(contexts: Any) -> Any:
        return model(contexts)[:, -1].log_softmax(-1).topk(6).values

    return best, lambda size: (torch.randint(0, 65, size),)


WORKLOADS = {
    "batches of an MLP": Workload(_mlp, _between(10, 400)),
    "episodes": Workload(_episode, _between(10, 400)),
    "transformer, length": Workload(_transformer, _between(10, 120)),
    "transformer, batch and length": Workload(
        _transformer, lambda r, count: [(r.randint(2, 12), r.randint(8, 60)) for _ in range(count)]
    ),
    "images, batch": Workload(_images, _between(3, 90)),
    "images, side": Workload(
        _images, lambda r, count: [(4, n) for n in r.sample(range(10, 64), min(count, 54))]
    ),
    "LSTM, length": Workload(_lstm, _between(10, 60)),
    "LSTM, batch": Workload(
        _lstm, lambda r, count: [(20, n) for n in r.sample(range(3, 90), min(count, 87))]
    ),
    "two LSTM cells, steps": Workload(_cells, _between(10, 60)),
    "tree LSTM, nodes of a level": Workload(
        _tree_level, lambda r, count: [(n, 2 * n + r.randint(0, n)) for n in r.sample(range(5, 90), count)]
    ),
    "tagger, batch and length": Workload(
        _tagger, lambda r, count: [(r.randint(2, 12), r.randint(6, 30)) for _ in range(count)]
    ),
    "tagger, one by one": Workload(_tagger, lambda r, count: [(1, n) for n in _between(6, 60)(r, count)]),
    "ODE, points and length of a step": Workload(
        _ode_step, lambda r, count: [(n, r.uniform(0.01, 0.5)) for n in _between(5, 200)(r, count)]
    ),
    "policy update, steps": Workload(_policy, _between(10, 300)),
    "sorted batches": Workload(_sorted, _between(10, 400)),
    "actions, environments": Workload(_actions, _between(2, 200), grad=False),
    "an integer that counts": Workload(_counted, lambda r, count: list(range(count))),
    "serving, batches of 1 to 32": Workload(_serving, _between(1, 33), grad=False),
    "beams, growing context": Workload(
        _beams, lambda r, count: [(r.randint(2, 8), t) for t in range(2, 2 + count)], grad=False
    ),
    "sampling, growing context": Workload(_sampling, lambda r, count: list(range(2, 2 + count)), grad=False),
}


def _both(
    workload: Workload, torch: Any, compiler: Callable | None
) -> tuple[list[Callable], Callable[[Any], tuple]]:
    """(the program from equal states: eager, and what ``compiler`` makes of it; its arguments for a size)"""
    programs = []
    for compiled in (False, True):
        torch.manual_seed(0)
        function, batch = workload.make(torch)
        programs.append(compiler(function) if compiled and compiler is not None else function)
    return programs, batch


def difference(workload: Workload, torch: Any, count: int, compiler: Callable) -> float:
    """By how much, relative to the largest element, the two differ in float64, over up to ``count`` sizes."""
    before, worst = torch.get_default_dtype(), 0.0
    torch.set_default_dtype(torch.float64)
    try:
        programs, batch = _both(workload, torch, compiler)
        with torch.set_grad_enabled(workload.grad):
            for size in workload.sizes(random.Random(0), count)[:CHECKED]:
                torch.manual_seed(1)
                arguments = batch(size)
                eager, compiled = (
                    [program(*arguments) for _ in range(1 + AGAIN)][-1].detach().reshape(-1)
                    for program in programs
                )
                scale = float(eager.abs().max()) or 1.0
                worst = max(worst, float((eager - compiled).abs().max()) / scale)
    finally:
        torch.set_default_dtype(before)
    return worst


@dataclass(frozen=True)
class Timed:
    """Microseconds: of the first call of a size, and of later ones."""

    new: float
    seen: float


def measure(workload: Workload, torch: Any, count: int, compiler: Callable | None) -> dict[str, Any]:
    """The times of eager mode and of what ``compiler`` makes, interleaved size by size."""
    programs, batch = _both(workload, torch, compiler)
    sizes = workload.sizes(random.Random(0), count)
    times: list[list[Timed]] = [[], []]
    total = [0.0, 0.0]
    with torch.set_grad_enabled(workload.grad):
        before: tuple | None = None
        for size in sizes:
            torch.manual_seed(1)
            arguments = batch(size)
            for k, program in enumerate(programs):
                if before is not None:
                    program(*before)
                calls = []
                for _ in range(1 + AGAIN):
                    start = time.perf_counter()
                    program(*arguments)
                    calls.append((time.perf_counter() - start) * 1e6)
                total[k] += sum(calls)
                times[k].append(Timed(calls[0], statistics.median(calls[1:])))
            before = arguments
    settled = [some[2:] for some in times]
    return {
        "eager": statistics.median(t.seen for t in settled[0]),
        "new": statistics.median(t.new for t in settled[1]),
        "worst": max(t.new for t in settled[1]),
        "seen": statistics.median(t.seen for t in settled[1]),
        "total": total[1] / total[0],
        "program": programs[1],
    }


def _row(name: str, library: str, found: dict[str, Any]) -> str:
    eager, program = found["eager"], found["program"]
    plans = getattr(program, "plans", None)
    made = "" if plans is None else sum(map(len, plans.values()))
    new, worst, seen = (found[what] / eager for what in ("new", "worst", "seen"))
    return (
        f"{name:>30}  {library:>7}  {eager:>9.0f}  {new:>6.2f}  {worst:>7.1f}  {seen:>6.2f}  "
        f"{found['total']:>6.2f}  {made:>6}"
    )


def report(
    names: Sequence[str],
    count: int,
    dynamic: bool = False,
    with_torch: bool = False,
    threads: int | None = None,
) -> int:
    """Print the table of the workloads that begin with ``names``, over ``count`` sizes; 1 if a program fails
    or computes something else compiled, 130 after Ctrl-C."""
    import jtorch

    libraries = [("jtorch", jtorch)]
    if with_torch:
        libraries.append(("torch", importlib.import_module("torch")))
    for _, module in libraries if threads else ():
        module.set_num_threads(threads)
    heads = f"{'eager us':>9}  {'new':>6}  {'worst':>7}  {'seen':>6}  {'total':>6}  {'plans':>6}"
    print(f"{'':>30}  {'':>7}  {heads}   (in eager calls)")
    chosen = [n for n in WORKLOADS if not names or any(n.startswith(wanted) for wanted in names)]
    failed = False
    with Progress() as progress:
        for name in chosen:
            for library, module in libraries:
                progress.say(f"{name}, {library}")
                try:
                    text, wrong = _measured(name, library, module, count, dynamic)
                except Exception as error:
                    text, wrong = f"{name:>30}  {library:>7}  ERROR {words(error)}", True
                progress.say("")
                print(text, flush=True)
                failed |= wrong
    return progress.status(failed)


def _measured(name: str, library: str, module: Any, count: int, dynamic: bool) -> tuple[str, bool]:
    """The row's text, and whether the compiled program computes something else."""
    workload, asked = WORKLOADS[name], True if dynamic or library == "torch" else None

    def compiler(function: Callable) -> Callable:
        return module.compile(function, dynamic=asked)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = measure(workload, module, count, compiler)
        off = difference(workload, module, count, compiler) if library == "jtorch" else 0.0
    wrong = off > TOLERANCE
    return _row(name, library, found) + (f"   off by {off:.1e}" if wrong else ""), wrong
