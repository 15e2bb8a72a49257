"""Library calls in compiled functions on the tests' device: graphs, and copies to the host and back between
them."""

from __future__ import annotations

import pytest

import jtorch
from jtorch import nn
from jtorch.compile.run.cuda_host import CallBetween
from jtorch.compiler import scan
from jtorch.core.errors import CudaError
from jtorch.native.cuda.graph import Graph
from tests.compile.codegen.cuda_programs import tensor
from tests.compile.run.test_cuda import machines, off
from tests.cuda.marks import compiles
from tests.cuda.test_compiled import leaves, same
from tests.cuda.test_loops import MANY
from tests.each import each

pytestmark = [
    pytest.mark.usefixtures("cuda"),
    compiles,
]


def eye(x):
    return jtorch.eye(3, device=x.device)


FUNCTIONS = {
    "an inverse": lambda x: jtorch.linalg.inv(x @ x.t() + eye(x)) * 2,
    "a call first": lambda x: jtorch.linalg.solve(x + 4 * eye(x), x),
    "a call last": lambda x: (x * 2).cumsum(1),
    "one after the other": lambda x: (x * 2).cumsum(1).sort(0, descending=True),
    "integers": lambda x: (x * 4).long() @ (x * 4).long().t() + 1,
    "a view": lambda x: (x * 2).t()[1:].cumsum(0) + 1,
    "a mask": lambda x: x[x > 0] * 2,
    "places": lambda x: x.relu().nonzero().sum(0),
    "several results": lambda x: (lambda q, r: (q @ r, r.abs().sum()))(*jtorch.linalg.qr(x + 4 * eye(x))),
    "draws": lambda x: x[jtorch.randperm(3, device=x.device)] + jtorch.multinomial(x.softmax(1), 1),
    "in a loop": lambda x: scan(lambda c, row: (jtorch.linalg.inv(c + row.outer(row)), c), eye(x), x),
    "of nothing": lambda x: x[:0].cumsum(0),
}


@pytest.mark.slow
@each("name", FUNCTIONS)
def test_a_function_gives_what_it_gives_on_the_host(name):
    function = FUNCTIONS[name]
    on_host, compiled = jtorch.compile(function, fullgraph=True), jtorch.compile(function, fullgraph=True)
    for seed in range(4):
        x = tensor(3, 3, seed=seed)
        jtorch.manual_seed(seed)
        expected = leaves(on_host(x))
        jtorch.manual_seed(seed)
        for a, b in zip(leaves(compiled(x.cuda())), expected, strict=True):
            same(a, b, 2e-6)


def trained(device, wrap):
    """Least squares in closed form inside a step that learns by its gradient, from the hardest examples."""
    jtorch.manual_seed(0)
    model = nn.Linear(3, 4).to(device)
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        features = model(x).tanh()
        gram = features.t() @ features + jtorch.eye(4, device=x.device)
        weights = jtorch.linalg.solve(gram, features.t() @ y)
        errors = (features @ weights - y).square().sum(1)
        loss = errors.topk(4)[0].mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = wrap(step)
    losses = [step(tensor(6, 3, seed=k).to(device), tensor(6, 2, seed=k + 9).to(device)) for k in range(4)]
    return [t.detach().cpu() for t in (*losses, *model.parameters())], step


@pytest.mark.slow
def test_a_training_step_with_a_solver():
    found, step = trained("cuda", lambda f: jtorch.compile(f, fullgraph=True))
    expected, _ = trained("cpu", jtorch.compile)
    ((plan,),) = step.plans.values()
    parts = plan.program.runner.graph.parts
    assert sum(isinstance(part, CallBetween) for part in parts) >= 3
    assert sum(isinstance(part, Graph) for part in parts) >= 3
    for a, b in zip(found, expected, strict=True):
        jtorch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@each("kind", ("LSTM", "GRU"))
def test_sequences_of_several_lengths(kind):
    def step(x, model):
        packed = nn.utils.rnn.pack_padded_sequence(x, [MANY, 4, 9], enforce_sorted=False)
        out, _ = nn.utils.rnn.pad_packed_sequence(model(packed)[0])
        model.zero_grad()
        (out * out).sum().backward()
        return out.detach(), *(p.grad for p in model.parameters())

    jtorch.manual_seed(0)
    here, there = (getattr(nn, kind)(5, 4, bidirectional=True) for _ in range(2))
    there.load_state_dict(here.state_dict())
    there.cuda()
    compiled = jtorch.compile(lambda x: step(x, there), fullgraph=True)
    for seed in range(2):
        x = tensor(MANY, 3, 5, seed=seed)
        for found, expected in zip(compiled(x.cuda()), step(x, here), strict=True):
            same(found, expected, 3e-6)


# -- errors --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_error_of_a_library_is_that_of_the_host():
    texts = []
    for device in ("cpu", "cuda"):
        step = jtorch.compile(lambda x: jtorch.linalg.inv(x * 2), fullgraph=True)
        step(tensor(3, 3).to(device))
        with pytest.raises(jtorch.linalg.LinAlgError, match="singular") as error:
            step(jtorch.zeros(3, 3).to(device))
        texts.append(str(error.value))
        step(tensor(3, 3).to(device))
    assert texts[0] == texts[1]


def doubled_and_inverted(x):
    X.mul_(2.0)
    return [jtorch.linalg.inv(x), X + 1.0]


X = tensor(3, 3)


def test_where_a_library_raises_nothing_is_written():
    _, cuda = machines(doubled_and_inverted, [jtorch.zeros(3, 3)])
    before = [array.copy() for array in (*cuda.inputs, *cuda.outputs)]
    with pytest.raises(jtorch.linalg.LinAlgError):
        cuda.run()
    assert all((a == b).all() for a, b in zip((*cuda.inputs, *cuda.outputs), before, strict=True))


def test_no_library_is_called_once_a_kernel_has_reported_an_error(monkeypatch):
    called = []
    run = CallBetween.run
    monkeypatch.setattr(CallBetween, "run", lambda self: called.append(self) or run(self))
    for row, status in ((4, 0), (5, 1)):
        given = [tensor(5, 3), jtorch.tensor([0, row])]
        _, cuda = machines(lambda x, ids: [(x[ids] * 2).cumsum(1)], given)
        assert bool(cuda.run()) == bool(status)
        assert len(called) == 1
    assert cuda.runner.failure(status).sentence == "index out of range in self"


# -- planted faults ------------------------------------------------------------------------------------------


@pytest.mark.slow
@each("missing", ("upload", "download"))
def test_each_copy_is_needed(missing):
    """Without it a kernel reads what nobody has written, or the library works on garbage."""
    cpu, cuda = machines(lambda x: [(x * 2).cumsum(1) * 3], [tensor(3, 3)])
    device = cuda.runner.device

    class Device:
        own, synchronize = device.own, device.synchronize
        upload, download = device.upload, device.download

    setattr(Device, missing, staticmethod(lambda *given: None))
    for part in cuda.runner.graph.parts:
        if isinstance(part, CallBetween):
            part.device = Device
    assert cpu.run() == 0
    try:
        assert cuda.run() == 0
    except CudaError as error:
        assert missing == "upload" and "nobody has written" in str(error)
    else:
        assert missing == "download" and not off(cpu.outputs[0], cuda.outputs[0]) <= 1e-3
