"""Packed sequences inside compiled functions: eager mode's values, gradients and errors, one recording for
all lengths; padding, and what has ended, reach nothing."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.core import threads
from jtorch.core.errors import CompileError
from jtorch.nn.utils import rnn
from tests.each import each

KINDS = [nn.RNN, nn.LSTM, nn.GRU]
OPTIONS = [
    {},
    {"bias": False, "batch_first": True},
    {"num_layers": 2, "bidirectional": True},
    {"bidirectional": True, "batch_first": True},
]
CASES = [(kind, options) for kind in KINDS for options in OPTIONS]
CASES += [(nn.RNN, {"nonlinearity": "relu"}), (nn.LSTM, {"proj_size": 2, "bidirectional": True})]
IDS = [f"{kind.__name__}-{'-'.join(options)}" for kind, options in CASES]
LONG = [[9, 8, 7, 7], [10, 9, 8, 7], [12, 8, 8, 7], [11, 10, 9, 9], [9, 9, 7, 7], [12, 11, 11, 9]]
SORTED = [[5, 3, 1], [6, 4, 3], [4, 4, 4], [1, 1, 1]]
MIXED = [[3, 5, 1], [2, 4, 2], [6, 6, 2], [1, 1, 1], [4, 4, 4]]


def draw(*shape, seed=0):
    jtorch.manual_seed(seed)
    return jtorch.randn(*shape)


def layer_of(kind, options):
    jtorch.manual_seed(1)
    return kind(5, 6, **options)


def input_of(layer, steps, batch, seed=0):
    return draw(batch, steps, 5, seed=seed) if layer.batch_first else draw(steps, batch, 5, seed=seed)


def states_of(layer, batch):
    layers = len(layer.all_weights)
    h = draw(layers, batch, layer.proj_size or 6, seed=3)
    return (h, draw(layers, batch, 6, seed=4)) if isinstance(layer, nn.LSTM) else h


def results_of(layer, enforce_sorted=False, **padding):
    """A function of an input, its lengths and states that gives all that a layer does."""

    def results(x, lengths, states=None):
        first = layer.batch_first
        packed = rnn.pack_padded_sequence(x, lengths, first, enforce_sorted)
        out, last = layer(packed, states)
        padded, back = rnn.pad_packed_sequence(out, first, **padding)
        last = last if isinstance(last, tuple) else (last,)
        return padded, back, out.data, out.batch_sizes, *last

    return results


def loss_of(found):
    return sum(t.sin().sum() * (k + 1) for k, t in enumerate(found) if t.requires_grad)


def gone_through(function, layer, x, *arguments):
    """All that a call and ``backward()`` leave."""
    layer.zero_grad()
    x = x.clone().requires_grad_()
    found = function(x, *arguments)
    loss_of(found).backward()
    return [*found, x.grad, *(p.grad for p in layer.parameters())]


def assert_alike(found, expected, rtol=1e-4, atol=5e-6):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype is b.dtype
        assert tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=rtol, atol=atol)


def assert_same_bits(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def stepped(function, layer):
    """Its gradients inside."""

    def step(x, *arguments):
        layer.zero_grad()
        found = function(x, *arguments)
        loss_of(found).backward()
        return [t.detach() for t in found]

    return step


FORMS = [("list", True, False), ("tensor", False, True)]


@pytest.mark.slow
@each("kind, options", CASES, ids=IDS)
@each("form, enforce_sorted, given", FORMS, ids=["list", "tensor-mixed-states"])
def test_values_and_gradients_are_those_of_eager_mode(kind, options, given, form, enforce_sorted):
    layer = layer_of(kind, options)
    f = results_of(layer, enforce_sorted)
    compiled = jtorch.compile(f, fullgraph=True)
    states = [states_of(layer, 3)] if given else []
    for k, lengths in enumerate(SORTED if enforce_sorted else MIXED):
        x = input_of(layer, 6, 3, seed=k)
        lengths = jtorch.tensor(lengths) if form == "tensor" else lengths
        assert_alike(
            gone_through(compiled, layer, x, lengths, *states), gone_through(f, layer, x, lengths, *states)
        )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"mode": "interpret"}], ids=str)
def test_gradients_inside(kind, options):
    layer = layer_of(kind, {"num_layers": 2, "bidirectional": True})
    step = stepped(results_of(layer), layer)
    compiled = jtorch.compile(step, fullgraph=True, **options)
    for k, lengths in enumerate([*MIXED, [3, 1, 4, 1, 5], [2, 7]]):
        x = input_of(layer, max(6, *lengths), len(lengths), seed=k)
        found = []
        for run in (compiled, step):
            found.append([*run(x, jtorch.tensor(lengths)), *(p.grad.clone() for p in layer.parameters())])
        assert_alike(*found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_recording_for_all_lengths(kind):
    """Of one padded size; and of batches that are padded to their longest sequence."""
    random = np.random.default_rng(0)
    layer = layer_of(kind, {"bidirectional": True})
    step = stepped(results_of(layer), layer)
    for fitted in (False, True):
        compiled = jtorch.compile(step, fullgraph=True)
        for k in range(20):
            lengths = random.integers(3, 13, 5)
            lengths[random.integers(5)] = random.integers(6, 12) if not fitted else lengths.max()
            longest = lengths.max() if fitted else 13
            x = input_of(layer, longest, 5, seed=k)
            compiled(x, jtorch.tensor(lengths))
        assert len(compiled.retraces) <= 1, compiled.retraces
        graph = compiled._newest().capture.graph
        assert "packed_" in str([eqn.op.name for eqn in graph.eqns])


def test_a_list_that_moves_is_read_at_each_call():
    layer = layer_of(nn.GRU, {})
    compiled = jtorch.compile(results_of(layer), fullgraph=True)
    for k, lengths in enumerate(([9, 3, 5], [7, 4, 6], [8, 2, 4], [6, 9, 3], [5, 7, 8], [4, 5, 2])):
        x = input_of(layer, 10, 3, seed=k)
        assert_alike(compiled(x, lengths), results_of(layer)(x, lengths))
    assert len(compiled.retraces) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_any_lengths_have_the_bits_of_their_own_plan(kind):
    layer = layer_of(kind, {"bidirectional": True})
    step = stepped(results_of(layer), layer)
    moving = jtorch.compile(step, fullgraph=True)
    for k, lengths in enumerate(MIXED[:4]):
        x = input_of(layer, 6, 3, seed=k)
        found = []
        for run in (moving, jtorch.compile(step, fullgraph=True, dynamic=False)):
            found.append([*run(x, jtorch.tensor(lengths)), *(p.grad.clone() for p in layer.parameters())])
        assert_same_bits(*found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("number")
def test_threads_have_the_bits_that_one_has(kind):
    jtorch.manual_seed(1)
    layer = kind(5, 48)
    step = stepped(results_of(layer), layer)
    lengths = [(7 * k) % 30 + 1 for k in range(48)]
    found = []
    for count in (1, 2):
        threads.set_count(count)
        compiled = jtorch.compile(step, fullgraph=True)
        x = input_of(layer, 30, 48)
        found.append([*compiled(x, jtorch.tensor(lengths)), *(p.grad.clone() for p in layer.parameters())])
    assert_same_bits(*found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_padding_reaches_nothing(kind, bidirectional):
    layer = layer_of(kind, {"bidirectional": bidirectional})
    compiled = jtorch.compile(results_of(layer), fullgraph=True)
    lengths = [2, 5, 3]
    x = input_of(layer, 6, 3)
    expected = gone_through(compiled, layer, x, jtorch.tensor(lengths))
    for number in (float("nan"), float("inf"), 1e30):
        broken = x.clone()
        for k, n in enumerate(lengths):
            broken[n:, k] = number
        assert_same_bits(gone_through(compiled, layer, broken, jtorch.tensor(lengths)), expected)
    assert all(
        (expected[-1 - len(list(layer.parameters()))][n:, k] == 0).all() for k, n in enumerate(lengths)
    )


def test_a_sequence_that_overflows_spoils_no_other_one():
    """Its last state is infinite: that goes into no product once it has ended, as in eager mode."""
    layer = nn.RNN(1, 1, nonlinearity="relu", bias=False)
    with jtorch.no_grad():
        layer.weight_ih_l0.fill_(1.0)
        layer.weight_hh_l0.fill_(2.0)
    x = jtorch.ones(4, 2, 1)
    x[0, 1] = 3e38

    def f(x, lengths):
        packed = rnn.pack_padded_sequence(x, lengths)
        out, _ = layer(packed)
        padded, _ = rnn.pad_packed_sequence(out)
        return (padded[:, 0].sum(), padded[0, 1].sum())

    found = [
        gone_through(run, layer, x, jtorch.tensor([4, 2])) for run in (jtorch.compile(f, fullgraph=True), f)
    ]
    assert_same_bits(*found)
    assert all(t.isfinite().all() for t in found[0])


@pytest.mark.slow
def test_padding_as_asked_for():
    layer = layer_of(nn.LSTM, {"batch_first": True})
    for padding in ({"padding_value": -2.0}, {"total_length": 8}, {"total_length": 6, "padding_value": 1.0}):
        f = results_of(layer, **padding)
        compiled = jtorch.compile(f, fullgraph=True)
        for k, lengths in enumerate(MIXED[:4]):
            x = input_of(layer, 6, 3, seed=k)
            lengths = jtorch.tensor(lengths)
            assert_alike(gone_through(compiled, layer, x, lengths), gone_through(f, layer, x, lengths))
    short = jtorch.compile(results_of(layer, total_length=4), fullgraph=True)
    assert short(input_of(layer, 6, 3), jtorch.tensor([4, 2, 3]))[0].shape == (3, 4, 6)
    with pytest.raises(ValueError, match="total_length=4 and max sequence length being 5"):
        short(input_of(layer, 6, 3), jtorch.tensor([5, 2, 3]))


@pytest.mark.slow
def test_sequences_that_were_packed_outside():
    layer = layer_of(nn.GRU, {"bidirectional": True})

    def f(packed):
        out, last = layer(packed)
        return out, last, rnn.pad_packed_sequence(out)

    compiled = jtorch.compile(f, fullgraph=True)
    for enforce_sorted in (False, True):
        for k, lengths in enumerate(LONG + SORTED):
            x = input_of(layer, 12, len(lengths), seed=k)
            packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=enforce_sorted)
            (out, last, padded), (again, end, also) = compiled(packed), f(packed)
            assert type(out) is rnn.PackedSequence
            assert (out.sorted_indices is None) == enforce_sorted
            there = [t for t in out if t is not None]
            assert_alike([*there, last, *padded], [*(t for t in again if t is not None), end, *also])
            if k + 1 == len(LONG):  # one that is exact, and one for all sizes; where there is an order or not
                assert len(compiled.retraces) <= (3 if enforce_sorted else 1)
        compiled.reset()


@pytest.mark.slow
def test_rows_that_are_computed_with_stay_packed():
    """An embedding of packed numbers, dropout between layers, the loss over packed rows: a tagger."""
    jtorch.manual_seed(2)
    table, head = nn.Embedding(11, 5), nn.Linear(12, 4)
    layer = nn.LSTM(5, 6, num_layers=2, bidirectional=True, dropout=0.5)
    model = nn.ModuleList([table, layer, head])
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.1)

    def step(ids, tags, lengths):
        words = rnn.pack_padded_sequence(ids, lengths, enforce_sorted=False)
        wanted = rnn.pack_padded_sequence(tags, lengths, enforce_sorted=False)
        rows = rnn.PackedSequence(table(words.data), *words[1:])
        out, _ = layer(rows)
        loss = nn.functional.cross_entropy(head(out.data), wanted.data)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    before = {name: p.clone() for name, p in model.state_dict().items()}
    found = []
    for run in (step, jtorch.compile(step, fullgraph=True)):
        model.load_state_dict(before)
        jtorch.manual_seed(0)
        losses = []
        for k, lengths in enumerate(([7, 3, 5], [4, 6, 5], [9, 2, 3], [5, 8, 6])):
            ids = jtorch.arange(27).reshape(9, 3) * (k + 2) % 11
            losses.append(run(ids, ids % 4, jtorch.tensor(lengths)).item())
        found.append([jtorch.tensor(losses), *(p.clone() for p in model.parameters())])
    assert_alike(*found)


@pytest.mark.slow
def test_a_mask_over_padded_outputs_is_of_their_sizes():
    layer = layer_of(nn.GRU, {"batch_first": True})

    def f(x, y, lengths):
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, back = rnn.pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=x.shape[1])
        live = jtorch.arange(x.shape[1]) < back.unsqueeze(1)
        return (((out - y) ** 2).mean(-1) * live).sum() / live.sum()

    compiled = jtorch.compile(f, fullgraph=True)
    for k, lengths in enumerate([*LONG, *MIXED]):
        x, y = input_of(layer, 13, len(lengths), seed=k), draw(len(lengths), 13, 6, seed=k)
        lengths = jtorch.tensor(lengths)
        assert_alike([compiled(x, y, lengths)], [f(x, y, lengths)])
        if k + 1 == len(LONG):
            assert not compiled.retraces


BAD_LENGTHS = [
    ([5, 1, 3], True, "must be sorted in decreasing order"),
    ([5, 3, 0], True, "has to be greater than 0"),
    ([5, -1, 2], False, "has to be greater than 0"),
    ([7, 3, 1], True, "lengths of at most 6"),
    ([5, 3], True, r"but got 2 \(batch_size=3\)"),
]


@pytest.mark.parametrize(("lengths", "enforce_sorted", "text"), BAD_LENGTHS)
@pytest.mark.parametrize("first", [False, True], ids=["", "first"])
def test_errors_are_eager_modes(lengths, enforce_sorted, text, first):
    layer = layer_of(nn.GRU, {})
    f = results_of(layer, enforce_sorted)
    compiled = jtorch.compile(f)
    x = input_of(layer, 6, 3)
    good = jtorch.tensor([5, 3, 1])
    if not first:
        assert_alike(compiled(x, good), f(x, good))
    for run in (f, compiled, compiled):
        with pytest.raises(RuntimeError, match=text):
            run(x, jtorch.tensor(lengths))
    assert_alike(compiled(x, good), f(x, good))


def test_states_that_do_not_fit():
    layer = layer_of(nn.LSTM, {})
    for enforce_sorted in (False, True):
        for run in (results_of(layer, enforce_sorted), jtorch.compile(results_of(layer, enforce_sorted))):
            with pytest.raises(RuntimeError, match=r"Expected hidden\[0\] size \(1, 3, 6\), got \[1, 4, 6\]"):
                run(input_of(layer, 6, 3), jtorch.tensor([5, 3, 1]), states_of(layer, 4))


@pytest.mark.parametrize("what", ["float16", "second derivatives"])
def test_what_is_no_loop_runs_eagerly(what):
    layer = layer_of(nn.GRU, {})
    layer = layer.half() if what == "float16" else layer

    def penalty(x, lengths):
        found = results_of(layer)(x, lengths)
        if what == "float16":
            return found[0]
        (g,) = jtorch.autograd.grad(found[0].sum(), x, create_graph=True)
        return g.square().sum()

    x = input_of(layer, 6, 3).to(layer.weight_ih_l0.dtype).requires_grad_()
    with pytest.raises(CompileError, match=r"test_packing.py:\d+.* packed sequences whose lengths"):
        jtorch.compile(penalty, fullgraph=True)(x, jtorch.tensor([5, 3, 1]))
    compiled = jtorch.compile(penalty, fullgraph=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for lengths in ([5, 3, 1], [2, 4, 4]):
            lengths = jtorch.tensor(lengths)
            assert_same_bits([compiled(x, lengths)], [penalty(x, lengths)])


@pytest.mark.slow
def test_lists_of_sequences():
    layer = layer_of(nn.GRU, {})

    def f(*sequences):
        out, last = layer(rnn.pack_sequence(list(sequences), enforce_sorted=False))
        return rnn.pad_packed_sequence(out)[0], last

    compiled = jtorch.compile(f, fullgraph=True)
    for lengths in ([3, 5, 2], [4, 2, 6], [3, 4, 5]):
        sequences = [draw(n, 5, seed=n) for n in lengths]
        assert_alike(compiled(*sequences), f(*sequences))


def test_numbers_of_sequences_that_are_written():
    def f(x, lengths):
        packed = rnn.pack_padded_sequence(x, lengths)
        sizes = packed.batch_sizes
        sizes.clamp_(max=2)
        return rnn.pad_packed_sequence(rnn.PackedSequence(packed.data[:6] * 1, sizes))[0]

    x, lengths = jtorch.arange(15.0).reshape(5, 3, 1), jtorch.tensor([4, 2, 1])
    assert jtorch.compile(f)(x, lengths).tolist() == f(x, lengths).tolist()
