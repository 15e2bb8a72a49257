"""Draws of Python's and NumPy's generators in compiled functions: each call draws, as eager mode does."""

from __future__ import annotations

import functools
import itertools
import random
import statistics
import warnings
from collections import defaultdict, deque

import numpy as np
import pytest

import jtorch
from jtorch.compiler import disable, scan
from jtorch.utils.checkpoint import checkpoint

NUMBERS = np.random.default_rng(5)
OWN = random.Random(1)


def states():
    random.seed(3)
    np.random.seed(4)
    OWN.seed(1)
    NUMBERS.bit_generator.state = np.random.default_rng(5).bit_generator.state


def positions():
    """What the generators give next."""
    return random.getstate(), np.random.get_state()[1:], NUMBERS.bit_generator.state, OWN.getstate()


def plain(value):
    if isinstance(value, jtorch.Tensor):
        return value.dtype, value.tolist()
    if isinstance(value, np.ndarray):
        return value.dtype, value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return type(value), value


def assert_as_eager(function, calls, compiles=True, **options):
    """``calls`` are those of one program after the other, compiled and eager, from equal states."""
    found = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        compiled = jtorch.compile(function, fullgraph=compiles, **options)
        for run in (function, compiled):
            states()
            results = []
            for arguments in calls:
                try:
                    results.append(plain(run(*arguments)))
                except Exception as error:
                    results.append((type(error), str(error).partition(" (at ")[0]))
            found.append((results, positions()))
    told = [w for w in told if issubclass(w.category, jtorch.errors.EagerWarning)]
    (eager, eager_state), (results, state) = found
    assert results == eager
    for ours, theirs in zip(state, eager_state, strict=True):
        assert str(ours) == str(theirs)
    assert bool(told) is not compiles, [str(w.message) for w in told]
    return compiled


X = jtorch.arange(4.0)
FLOATS = {
    "random": lambda: random.random(),
    "uniform": lambda: random.uniform(-1, 1),
    "gauss": lambda: random.gauss(0, 1),
    "betavariate": lambda: random.betavariate(1, 2),
    "of the module, NumPy": lambda: np.random.rand(),
    "beta": lambda: np.random.beta(0.4, 0.4),
    "normal": lambda: np.random.normal(loc=1.0, scale=2.0),
    "a generator's": lambda: NUMBERS.normal(),
    "uniform of a generator": lambda: NUMBERS.uniform(high=2.0, low=1.0),
    "of a choice": lambda: random.choice([0.5, 1.5, 2.5]),
    "an integer": lambda: random.randint(1, 6),
    "of a range": lambda: random.randrange(10),
    "bits": lambda: random.getrandbits(8),
    "an integer of NumPy": lambda: np.random.randint(0, 9),
    "a number of NumPy's choice": lambda: np.random.choice(7),
}


@pytest.mark.parametrize("name", FLOATS)
def test_a_number_is_drawn_by_each_call(name):
    draw = FLOATS[name]

    def program(x):
        k = draw()
        return x * k + 1, k

    assert_as_eager(program, [(X,)] * 4)


LISTS = {
    "a sample": lambda: random.sample(range(4), 3),
    "choices": lambda: random.choices([3, 0, 1], k=5),
    "an array of integers": lambda: np.random.randint(0, 4, 6),
    "a permutation": lambda: np.random.permutation(4),
    "integers of a generator": lambda: NUMBERS.integers(0, 4, size=(2, 2)),
    "of a choice": lambda: NUMBERS.choice(4, size=3, replace=False),
    "with weights": lambda: np.random.choice(4, 5, p=[0.1, 0.2, 0.3, 0.4]),
}


@pytest.mark.parametrize("name", LISTS)
def test_elements_that_are_drawn(name):
    draw = LISTS[name]

    def program(x):
        where = jtorch.as_tensor(draw())
        return x[where] * 2, where

    assert_as_eager(program, [(X,)] * 4)


def test_an_array_as_an_index():
    assert_as_eager(lambda x: x[np.random.permutation(4)] + 1, [(X,)] * 3)


def test_numpy_goes_on_with_an_array():
    def program(x):
        noise = np.random.randn(4) * 0.5 + 1
        order = np.random.permutation(4)
        return (
            x * jtorch.from_numpy(noise),
            x[order[:2]],
            x * noise[1],
            noise.max(),
            x[NUMBERS.random(4) > 0.5],
        )

    assert_as_eager(program, [(X,)] * 4)


def test_a_choice_of_an_array_that_the_function_makes():
    assert_as_eager(lambda x: x[np.random.choice(np.arange(1, 4), 2, replace=False)] + 1, [(X,)] * 4)


def test_what_is_drawn_out_of_arrays():
    """A buffer of arrays, which fills, and whose elements change between calls."""

    class Buffer:
        def __init__(self):
            self.observations = np.random.default_rng(0).normal(size=(20, 1, 4)).astype(np.float32)
            self.actions = np.arange(20).reshape(20, 1, 1)
            self.rewards, self.ends = np.zeros((20, 1), np.float32), np.zeros((20, 1), np.float32)
            self.position = 8

        def sample(self, n):
            where = np.random.randint(0, min(self.position, 12), size=n)
            which = np.random.randint(0, high=1, size=(len(where),))
            rewards = self.rewards[where, which] * (1 - self.ends[where, which])
            parts = self.observations[where, which, :], self.actions[where, which, :], rewards.reshape(-1, 1)
            return [*map(jtorch.tensor, parts), self.observations[where, 0, 1:3], self.actions[where]]

    def run(wrap):
        buffer, found = Buffer(), []
        step = wrap(lambda x: [part * 1 for part in buffer.sample(5)] + [x])
        states()
        for k in range(8):
            found.append(plain(step(X)))
            buffer.rewards[k], buffer.ends[k + 3] = k + 1, k % 2
            buffer.position += 1
        return found, positions()

    compiled = []

    def kept(function):
        compiled.append(jtorch.compile(function, fullgraph=True))
        return compiled[0]

    expected, found = run(lambda f: f), run(kept)
    assert found[0] == expected[0] and str(found[1]) == str(expected[1])
    assert len(compiled[0].retraces) == 2  # the position as a number that moves, and beyond the bound


def test_noise():
    assert_as_eager(lambda x: x + jtorch.from_numpy(np.random.randn(4)), [(X,)] * 3)
    assert_as_eager(lambda x: x + NUMBERS.standard_normal(4), [(X,)] * 3)


def test_several_generators_in_the_programs_order():
    def program(x):
        a, b = random.random(), np.random.rand()
        c, d = OWN.random(), random.random()
        return x * a + b * c - d, np.random.rand() * NUMBERS.random()

    assert_as_eager(program, [(X,)] * 3)


def test_a_branch_on_a_number_is_recorded_both_ways():
    def program(x):
        return x * 2 if random.random() < 0.5 else x + 1

    compiled = assert_as_eager(program, [(X,)] * 20)
    assert len(compiled.retraces) == 1


@pytest.mark.parametrize("least", [0, -1])
def test_a_branch_on_an_integer(least):
    def program(x):
        return x * 2 if random.randint(least, 1) > 0 else x + 1

    assert len(assert_as_eager(program, [(X,)] * 20).retraces) == 1
    assert_as_eager(lambda x: x * 2 if random.randint(0, 1) else x, [(X,)] * 12)


def test_a_branch_against_a_number_that_moves():
    """Epsilon-greedy, with an epsilon that decays: an argument, an attribute, or computed."""

    class Agent:
        eps = 1.0

    def by_argument(x, eps):
        return x * 2 if random.random() < eps else x + 1

    compiled = assert_as_eager(by_argument, [(X, 0.95**k) for k in range(40)])
    assert sum(map(len, compiled.plans.values())) == 2

    def computed(x, eps):
        return x * 2 if 1 - random.random() > 0.5 * eps else x + eps

    compiled = assert_as_eager(computed, [(X, 0.95**k) for k in range(40)])
    assert sum(map(len, compiled.plans.values())) == 2

    def against_elements(x, eps):
        return x * 2 if random.random() < x.sum().item() * eps else x

    compiled = assert_as_eager(against_elements, [(jtorch.ones(2), 0.95**k) for k in range(30)])
    assert sum(map(len, compiled.plans.values())) == 2
    agent = Agent()

    def by_attribute(x):
        return x * 2 if random.random() < agent.eps else x + 1

    compiled = jtorch.compile(by_attribute, fullgraph=True)
    found = []
    for run in (by_attribute, compiled):
        states()
        agent.eps, results = 1.0, []
        for _ in range(40):
            results.append(run(X).tolist())
            agent.eps *= 0.95
        found.append(results)
    assert found[0] == found[1]
    assert sum(map(len, compiled.plans.values())) <= 5


def test_a_generator_that_is_an_argument_runs_eagerly():
    def run(function):
        return [function(X, random.Random(k)).tolist() for k in range(8)]

    compiled = jtorch.compile(lambda x, g: x * g.random(), fullgraph=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(compiled) == run(lambda x, g: x * g.random())
    assert not any(compiled.plans.values())


def test_many_branches_run_eagerly():
    def program(x):
        for _ in range(6):
            x = x * 2 if random.random() < 0.5 else x + 1
        return x

    compiled = jtorch.compile(program, max_branches=3)
    states()
    expected = [program(X).tolist() for _ in range(30)]
    states()
    with pytest.warns(UserWarning, match="max_branches"):
        assert [compiled(X).tolist() for _ in range(30)] == expected
    assert len(compiled.retraces) < 5


def test_training():
    def make():
        jtorch.manual_seed(0)
        model = jtorch.nn.Linear(4, 3)
        optimizer = jtorch.optim.Adam(model.parameters())

        def step(x, label):
            share = np.random.beta(1.0, 1.0)
            mixed = share * x + (1 - share) * x.flip(0)
            output = model(mixed)
            cross_entropy = jtorch.nn.functional.cross_entropy
            loss = share * cross_entropy(output, label) + (1 - share) * cross_entropy(output, label.flip(0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step

    x, label = jtorch.randn(5, 4), jtorch.tensor([0, 1, 2, 0, 1])
    losses = []
    for wrap in (lambda f: f, jtorch.compile(fullgraph=True)):
        states()
        step = wrap(make())
        losses.append([step(x, label).item() for _ in range(6)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


def test_backward_outside():
    w = jtorch.ones(4, requires_grad=True)

    @jtorch.compile(fullgraph=True)
    def program(x):
        return (x * w * random.random()).sum()

    states()
    for _ in range(3):
        w.grad = None
        program(X).backward()
        found = w.grad.tolist()
    states()
    expected = [random.random() for _ in range(3)][-1]
    assert found == (X * expected).tolist()


def test_a_replay_that_fails_has_drawn_what_eager_mode_draws():
    def program(x, where):
        return x[where] * random.random()

    calls = [(X, jtorch.tensor([k])) for k in (0, 3, 9, 1)]
    assert_as_eager(program, calls)


def test_another_size_draws_once():
    def program(x):
        return x * random.random() + np.random.rand()

    assert_as_eager(program, [(jtorch.ones(n),) for n in (3, 4, 5, 3, 1, 7)])


def test_sizes_that_are_drawn_for():
    compiled = assert_as_eager(
        lambda x: x[np.random.permutation(x.shape[0])],
        [(jtorch.arange(float(n)),) for n in (5, 6, 7, 8, 5, 9)],
        False,
    )
    assert sum(map(len, compiled.plans.values())) == 1


# -- arrays that are shuffled ------------------------------------------------------------------------------


def minibatches(x):
    indices, sums = np.arange(8), []
    early = indices[2:5]
    for _ in range(3):
        np.random.shuffle(indices)
        for start in range(0, 8, 4):
            sums.append(x[indices[start : start + 4]].sum() * (start + 1))
    return jtorch.stack(sums), x[early], indices, len(indices)


def shuffled_by_a_generator(x):
    indices = np.arange(2, 8, 2)
    NUMBERS.shuffle(indices)
    first = x[indices]
    NUMBERS.shuffle(indices)
    return first, x[indices], indices * 2


def shuffled_under_a_tensor(x):
    indices = np.arange(4)
    np.random.shuffle(indices)
    tensor = jtorch.from_numpy(indices)
    np.random.shuffle(indices)
    return tensor, x[tensor], np.random.rand()


def shuffled_in_turn(x):
    ones, others = np.arange(3), np.arange(4)
    np.random.shuffle(others)
    np.random.shuffle(ones)
    np.random.shuffle(others)
    return x[ones], others, random.random()


@pytest.mark.parametrize(
    "f", [minibatches, shuffled_by_a_generator, shuffled_under_a_tensor, shuffled_in_turn]
)
def test_an_array_that_the_function_shuffles(f):
    compiled = assert_as_eager(f, [(jtorch.arange(8.0) * k,) for k in range(5)])
    assert sum(map(len, compiled.plans.values())) == 1


def test_sizes_that_are_shuffled_for():
    def program(x):
        indices = np.arange(x.shape[0])
        np.random.shuffle(indices)
        return x[indices]

    assert_as_eager(program, [(jtorch.arange(float(n)),) for n in (5, 5, 6, 7, 0, 1, 9)], False)


def written_between(x):
    indices = np.arange(4)
    np.random.shuffle(indices)
    indices[0] = 3
    np.random.shuffle(indices)
    return x[indices]


def shuffled_views(x):
    indices = np.arange(4)
    np.random.shuffle(indices[:2])
    return x[indices]


def computed(x):
    indices = np.arange(4) * 2 % 3
    np.random.shuffle(indices)
    return x[indices]


def rows(x):
    indices = np.arange(4).reshape(2, 2)
    np.random.shuffle(indices)
    return x[indices]


OUTSIDE = np.arange(4)


def outside(x):
    np.random.shuffle(OUTSIDE)
    return x[OUTSIDE] * np.random.rand()


@pytest.mark.parametrize("f", [written_between, shuffled_views, computed, rows])
def test_other_arrays_are_shuffled_in_eager_mode(f):
    assert_as_eager(f, [(X,)] * 4, compiles=False)


def test_an_array_from_outside_is_shuffled_in_eager_mode():
    def run(wrap):
        OUTSIDE[:] = range(4)
        states()
        step = wrap(outside)
        return [step(X).tolist() for _ in range(4)], OUTSIDE.tolist()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(jtorch.compile(fullgraph=False)) == run(lambda f: f)


def test_a_draw_that_raises():
    def run(wrap):
        pool = list(range(5))

        def program(x):
            return x.add_(1) * sum(random.sample(pool, 3))

        step, x, found = wrap(program), jtorch.zeros(2), []
        states()
        for _ in range(4):
            try:
                found.append(step(x).tolist())
            except ValueError as error:
                found.append(str(error))
            pool.pop()
        return found, x.tolist(), str(random.getstate())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(jtorch.compile(fullgraph=False)) == run(lambda f: f)


def test_an_array_that_is_written():
    def program(x):
        noise = jtorch.from_numpy(np.random.randn(4))
        noise.mul_(2)
        return x + noise, noise

    assert_as_eager(program, [(X,)] * 3)


def test_what_is_drawn_requires_grad():
    def program(x):
        w = jtorch.tensor(np.random.rand(4), requires_grad=True)
        (w * x).sum().backward()
        return w.grad, w.detach()

    assert_as_eager(program, [(X,)] * 3)


def test_a_tensor_of_several():
    pool = [jtorch.ones(2), jtorch.zeros(2), jtorch.full((2,), 3.0)]
    assert_as_eager(lambda x: x * random.choice(pool) + random.choice(pool), [(jtorch.ones(2),)] * 6)


def test_a_function_that_raises_has_drawn():
    def program(x, fails):
        y = x * random.random()
        if fails:
            raise ValueError("no")
        return y

    assert_as_eager(program, [(X, False), (X, True), (X, False), (X, True)])


def test_a_branch_on_elements_after_a_draw():
    def program(x):
        y = x * random.random()
        return y * 2 if y.sum() > 3 else y - np.random.rand()

    assert_as_eager(program, [(X,)] * 12)


def test_counted_masks_after_a_draw():
    def program(x):
        y = x * random.random()
        return y[y > 1] * 2

    assert_as_eager(program, [(jtorch.arange(9.0),)] * 12)


class Memory:
    def __init__(self):
        self.buffer = deque(maxlen=6)

    def put(self, k):
        self.buffer.append((jtorch.full((2,), float(k)), k, float(k) / 2))

    def sample(self, n):
        states, actions, rewards = zip(*random.sample(self.buffer, n), strict=True)
        return jtorch.stack(states), jtorch.tensor(actions), jtorch.tensor(rewards)


def test_a_replay_buffer():
    """What is in there is that of each call."""

    def run(wrap):
        memory = Memory()
        for k in range(6):
            memory.put(k)
        step = wrap(lambda scale: [part * scale for part in memory.sample(3)])
        found = []
        states()
        for k in range(6, 14):
            found.append(plain(step(2)))
            memory.put(k)
        return found, str(random.getstate())

    expected = run(lambda f: f)
    compiled = []

    def kept(function):
        compiled.append(jtorch.compile(function, fullgraph=True))
        return compiled[0]

    assert run(kept) == expected
    assert len(compiled[0].retraces) == 0


class Arrays(Memory):
    """As in minimalRL: arrays and numbers in tuples."""

    def put(self, k):
        self.buffer.append((np.full(2, k, np.float32), k % 3, float(k) / 2))

    def sample(self, n):
        s_lst, a_lst, r_lst = [], [], []
        for s, a, r in random.sample(self.buffer, n):
            s_lst.append(s)
            a_lst.append([a])
            r_lst.append([r])
        return jtorch.tensor(s_lst, dtype=jtorch.float32), jtorch.tensor(a_lst), jtorch.tensor(r_lst)


@pytest.mark.parametrize("kind", [Memory, Arrays])
def test_what_is_drawn_twice(kind):
    """Samples of a call that have elements in common, and others that have none."""

    def run(wrap):
        memory = kind()
        for k in range(6):
            memory.put(k)
        step = wrap(lambda scale: [[part * scale for part in memory.sample(3)] for _ in range(3)])
        states()
        found = []
        for k in range(8):
            found.append(plain(step(2)))
            memory.put(k)
        return found, str(random.getstate())

    compiled = []

    def kept(function):
        compiled.append(jtorch.compile(function, fullgraph=True))
        return compiled[0]

    assert run(kept) == run(lambda f: f)
    assert len(compiled[0].retraces) == 0


def test_what_is_drawn_out_of_a_container_and_written():
    def run(wrap):
        pool = [jtorch.ones(2), jtorch.zeros(2)]
        step = wrap(lambda x: x * random.choice(pool).add_(1) * random.choice(pool).mul_(2))
        states()
        found = [step(jtorch.ones(2)).tolist() for _ in range(6)]
        return found, [p.tolist() for p in pool], str(random.getstate())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(jtorch.compile(fullgraph=False)) == run(lambda f: f)


def test_lists_and_dicts_out_of_a_list_are_the_very_ones():
    pool = [[1.0], [2.0]]

    def appended(x):
        chosen = random.choice(pool)
        chosen.append(3.0)
        return x * len(chosen)

    def returned(x):
        return x * 2, random.choice(pool), random.sample(pool, 1)

    compiled = jtorch.compile(returned, fullgraph=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            _, chosen, (sampled,) = compiled(X)
            assert any(chosen is each for each in pool) and any(sampled is each for each in pool)
        found = []
        for wrap in (lambda f: f, jtorch.compile(fullgraph=False)):
            pool[:] = [[1.0], [2.0]]
            states()
            step = wrap(appended)
            found.append(([step(X).tolist() for _ in range(5)], [list(each) for each in pool]))
        assert found[0] == found[1]


def test_a_tensor_out_of_a_list_is_the_very_one():
    pool = [jtorch.ones(2), jtorch.zeros(2)]
    compiled = jtorch.compile(lambda x: (x * 2, random.choice(pool)), fullgraph=True)
    for _ in range(5):
        found = compiled(X)[1]
        assert any(found is each for each in pool)


def test_a_schedule_that_draws_before():
    def run(wrap):
        states()
        w = jtorch.ones(4, requires_grad=True)
        optimizer = jtorch.optim.SGD([w], lr=0.1)
        schedule = jtorch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: random.random())

        def program(x):
            optimizer.zero_grad()
            (w * x).sum().backward()
            optimizer.step()
            schedule.step()
            return random.random()

        step = wrap(program)
        return [step(X) for _ in range(4)], w.tolist(), str(random.getstate())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(jtorch.compile(fullgraph=False)) == run(lambda f: f)


def test_which_object_is_drawn():
    pool = [jtorch.ones(4), jtorch.full((4,), 2.0)]

    def same(x):
        return x * 2 if random.choice(pool) is random.choice(pool) else x + 1

    def known(x):
        return x * 2 if random.choice(pool) is pool[0] else x + 1

    def several(x):
        return x * len({id(random.choice(pool)), id(random.choice(pool))})

    for program in (same, known, several):
        assert_as_eager(program, [(X,)] * 8, compiles=False)


def test_gradients_and_attributes_of_what_is_drawn():
    def marked(x):
        chosen = random.choice(pool)
        chosen.grad = x * 2
        return x * chosen

    def asked(x):
        return random.choice(pool).grad * x

    def tagged(x):
        return x * random.choice(pool).tag

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = []
        for wrap in (lambda f: f, jtorch.compile(fullgraph=False)):
            pool = [jtorch.ones(2), jtorch.zeros(2)]
            states()
            steps = [wrap(marked), wrap(asked), wrap(tagged)]
            results = [steps[0](jtorch.ones(2) * k).tolist() for k in range(6)]
            results += [steps[1](jtorch.ones(2) * k).tolist() for k in range(6)]
            for k, tensor in enumerate(pool):
                tensor.tag = k + 1.0
            results += [steps[2](jtorch.ones(2)).tolist() for _ in range(4)]
            found.append((results, [t.grad.tolist() for t in pool], str(random.getstate())))
        assert found[0] == found[1]


def test_parameters_that_are_drawn():
    def run(wrap):
        layers = [jtorch.ones(2, requires_grad=True), jtorch.zeros(2, requires_grad=True)]

        def program(x):
            (x * random.choice(layers)).sum().backward()

        step = wrap(program)
        states()
        for _ in range(5):
            step(jtorch.ones(2))
        return [None if p.grad is None else p.grad.tolist() for p in layers]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(jtorch.compile(fullgraph=False)) == run(lambda f: f)


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: [a, b], lambda a, b: [[a, b], [b, a]], lambda a, b: (a.tolist(), b),
        lambda a, b: [a[0], b[0]], lambda a, b: [np.float32(1.0), a.sum()],
    ],
)  # fmt: skip
def test_lists_of_arrays_that_are_arguments(make):
    """As tensors of one array: their elements are those of each call, or the call runs eagerly."""

    def program(a, b):
        return jtorch.tensor(make(a, b)) * 2

    compiled = jtorch.compile(program, fullgraph=False)
    cast = jtorch.compile(lambda a, b: jtorch.tensor([a, b], dtype=jtorch.int64), fullgraph=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(4):
            a, b = np.full(3, k, np.float32), np.arange(3, dtype=np.float32) * k
            assert plain(compiled(a, b)) == plain(program(a, b))
            assert plain(cast(a, b)) == plain(jtorch.tensor([a.tolist(), b.tolist()]).long())


def test_what_is_put_into_the_buffer_before_is_seen():
    def run(wrap):
        buffer = [1, 2, 3]

        def program(x):
            buffer.append(len(buffer) + 1)
            return x * sum(random.sample(buffer, 2))

        step = wrap(program)
        states()
        return [step(X).tolist() for _ in range(4)], str(random.getstate())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(jtorch.compile(fullgraph=False)) == run(lambda f: f)


EAGER = {
    "digits": lambda x: x[: random.randint(1, 4)] * 2,
    "comparisons of many integers": lambda x: x * max(random.sample(range(9), 3)),
    "a text": lambda x: (x * 2, len(str(random.random()))),
    "a string": lambda x: x * {"a": 1, "b": 2}[random.choice("ab")],
    "NumPy's other functions": lambda x: x * jtorch.tensor(np.sort(np.random.rand(4))),
    "a write to an array": lambda x: x * jtorch.tensor((lambda a: (a.fill(2.0), a)[1])(np.random.rand(4))),
    "a shuffle": lambda x: x * jtorch.tensor((lambda v: (random.shuffle(v), v)[1])([1, 2, 3, 4])),
    "a seed": lambda x: (random.seed(1), x * random.random())[1],
    "a generator of its own": lambda x: x * random.Random(2).random(),
    "an argument that a replay computes": lambda x: x * random.uniform(0, x.sum().item()),
    "a state": lambda x: (x * random.random(), len(random.getstate())),
}


EAGER |= {
    "map": lambda x: x * sum(map(random.uniform, [0.0, 1.0], [1.0, 2.0])),
    "map of NumPy's": lambda x: x * sum(map(np.random.normal, [0.0, 1.0])),
    "starmap": lambda x: x * sum(itertools.starmap(random.randint, [(1, 5), (2, 3)])),
    "iter": lambda x: x * next(iter(random.random, None)),
    "defaultdict": lambda x: x * defaultdict(random.random)["a"],
    "a method of the class": lambda x: x * sum(map(random.Random.random, [OWN])),
    "statistics": lambda x: x * sum(statistics.NormalDist(0, 1).samples(2)),
    "a function that NumPy calls": lambda x: (
        x + jtorch.from_numpy(np.apply_along_axis(lambda v: v * random.random(), 0, np.ones((2, 4)))[0])
    ),
    "a partial in map": lambda x: x * sum(map(functools.partial(random.uniform, 1.0), [2.0])),
    "key": lambda x: x * sorted([1.0, 2.0, 3.0], key=functools.partial(random.gauss, 0.0))[0],
}


@pytest.mark.parametrize("name", EAGER)
def test_what_cannot_be_drawn_before_runs_eagerly(name):
    assert_as_eager(EAGER[name], [(X,)] * 4, compiles=False)


def test_a_list_of_arrays_that_are_multiplied_by_what_is_drawn():
    def program(x):
        rows = np.array([np.ones(4) * random.random(), np.ones(4) * random.random()])
        return x + jtorch.from_numpy(rows[0])

    assert_as_eager(program, [(X,)] * 4)


def test_functions_that_are_disabled():
    @disable
    def drawing(x):
        return x * random.random()

    assert_as_eager(lambda x: drawing(x * random.random()) + 1, [(X,)] * 3, compiles=False)


def test_a_cached_function_draws_once():
    def run(wrap):
        @functools.lru_cache
        def cached(k):
            return random.random() * k

        step = wrap(lambda x: x * random.random() + cached(2) * random.random())
        states()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [step(X).tolist() for _ in range(4)], str(random.getstate())

    assert run(jtorch.compile(fullgraph=False)) == run(lambda f: f)


def test_a_cached_property_draws_once():
    class Owner:
        @functools.cached_property
        def drawn(self):
            return random.random()

        @functools.cached_property
        def array(self):
            return np.random.rand(4)

    def run(wrap):
        owners = [Owner()]
        step = wrap(lambda x: x * random.random() * owners[0].drawn + jtorch.from_numpy(owners[0].array))
        states()
        found = []
        for k in range(8):
            found.append(step(X).tolist())
            if k % 3 == 2:
                owners[0] = Owner()
        return found, str(positions())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(jtorch.compile(fullgraph=False)) == run(lambda f: f)


def test_generators_that_share_a_state():
    bits = np.random.MT19937(7)
    old, new = np.random.RandomState(bits), np.random.Generator(bits)

    def run(wrap):
        step = wrap(lambda x: x * old.normal() if new.random() < 0.5 else x + old.normal() * new.random())
        bits.state = np.random.MT19937(7).state
        old.seed(3)
        return [step(X).tolist() for _ in range(8)], str(bits.state)

    assert run(jtorch.compile(fullgraph=True)) == run(lambda f: f)


def test_a_class_that_is_given_to_a_generator():
    class Half(random.Random):
        def random(self):
            return 0.5

    own = random.Random(3)
    compiled = jtorch.compile(lambda x: x * own.random(), fullgraph=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(X)
        own.__class__ = Half
        assert compiled(X).tolist() == (X * 0.5).tolist()


def test_a_method_that_somebody_replaces(monkeypatch):
    uniform = random.uniform  # bound to what it was
    compiled = jtorch.compile(lambda x: x * uniform(1.0, 2.0))
    compiled(X)
    monkeypatch.setattr(random.Random, "uniform", lambda self, a, b: 100.0)
    assert compiled(jtorch.ones(4)).max().item() < 2.0


def test_a_checkpoint():
    w = jtorch.ones(4, requires_grad=True)

    def program(x):
        y = checkpoint(lambda v: (v * w * random.random()).exp(), x, use_reentrant=False)
        y.sum().backward()
        grad, w.grad = w.grad, None
        return y.detach(), grad

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for wrap in (lambda f: f, jtorch.compile):
            states()
            run = wrap(program)
            found = [plain(run(X)) for _ in range(3)]
            if wrap is not jtorch.compile:
                expected = found
    np.testing.assert_allclose(elements_of(found), elements_of(expected), rtol=1e-6)


def elements_of(found):
    return [values for call in found for _, values in call]


def test_a_loop_over_time():
    def program(x):
        def step(carry, row):
            return carry * random.random() + row, carry

        return scan(step, x[0], x)

    states()
    expected = [plain(program(jtorch.ones(3, 2))) for _ in range(3)]
    states()
    compiled = jtorch.compile(program)
    assert [plain(compiled(jtorch.ones(3, 2))) for _ in range(3)] == expected


def test_output(capsys):
    def program(x):
        k = random.random()
        print(f"{k:.4f}", k)
        return x * k

    for wrap in (lambda f: f, jtorch.compile(fullgraph=True)):
        states()
        run = wrap(program)
        for _ in range(3):
            run(X)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == lines[3:] and len(set(lines)) == 3


@pytest.mark.slow
def test_what_looks_into_a_plan_draws_nothing(tmp_path):
    compiled = jtorch.compile(lambda x: x * random.random() + jtorch.from_numpy(np.random.rand(4)))
    states()
    compiled(X)
    before = positions()
    compiled.graph(X), compiled.plan(X), compiled.source(X), compiled.explain(), compiled.stats()
    compiled.profile(X)
    compiled.save_repro(tmp_path, X)
    assert str(positions()) == str(before)


@pytest.mark.parametrize("options", [{"mode": "interpret"}, {"verify": "every:1"}, {"dynamic": True}])
def test_modes(options):
    def program(x):
        y = x * random.random() + NUMBERS.normal()
        return y * 2 if np.random.rand() < 0.5 else y

    assert_as_eager(program, [(jtorch.ones(n, 2),) for n in (3, 4, 3, 5, 6)], **options)


def test_an_array_that_is_returned():
    compiled = jtorch.compile(lambda x: (x * 2, np.random.rand(2)), fullgraph=True)
    states()
    first, second = compiled(X)[1], compiled(X)[1]
    states()
    assert first.tolist() == np.random.rand(2).tolist() and second.tolist() == np.random.rand(2).tolist()


def test_the_state_of_an_old_generator_is_put_back():
    """By its memory where uniform numbers alone are drawn, else with the normal number that it keeps."""
    old = np.random.RandomState(3)

    def uniform(x, way):
        k = old.randint(0, 9)
        return x * k if x.sum() * way > 0 else x - old.rand()

    def normal(x, way):
        k = old.standard_normal()
        return x * k if x.sum() * way > 0 else x - old.rand()

    for program in (uniform, normal):
        compiled, found = jtorch.compile(program, fullgraph=True), []
        for run in (program, compiled):
            old.set_state(np.random.RandomState(4).get_state())
            results = [run(X, way).tolist() for way in (1.0, -1.0, 1.0, -1.0, -1.0, 1.0)]
            found.append((results, str(old.get_state()), old.standard_normal()))
        np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6)
        assert found[0][1:] == found[1][1:]


def test_a_generator_that_gets_another_state():
    def program(x):
        return x * np.random.rand()

    before, found = np.random.get_bit_generator(), []
    try:
        for run in (program, jtorch.compile(program, fullgraph=True)):
            results = []
            for seed in range(4):
                np.random.set_bit_generator(np.random.MT19937(seed))
                results.append(run(X).tolist())
            found.append(results)
    finally:
        np.random.set_bit_generator(before)
    np.testing.assert_allclose(*found, rtol=1e-6)


def _replay(flag, mask, n=4):
    """As minimalRL's buffers: a flag with each transition, of which ``mask`` makes a number."""
    rng = np.random.default_rng(0)
    rows = [(rng.standard_normal(3).astype("f"), k % 3, float(k), flag(k)) for k in range(40)]
    buffer = deque(rows, maxlen=50)

    def program(x):
        states, actions, rewards, masks = [], [], [], []
        for state, action, reward, done in random.sample(buffer, n):
            states.append(state)
            actions.append([action])
            rewards.append(reward)
            number = 0.0 if done else 1.0
            rewards[-1] = reward * number
            masks.append(mask(done))
        return (
            (jtorch.tensor(states) * x).sum(1), jtorch.tensor(actions), jtorch.tensor(rewards),
            jtorch.tensor(masks),
        )  # fmt: skip

    return program


def _floats(done):
    number = 0.0 if done else 1.0
    return number  # noqa: RET504 - a constant that is returned at once is another instruction


def _integers(done):
    number = 0 if done else 1
    return number  # noqa: RET504


def _turned_round(done):
    number = 1.0 if not done else 0.0
    return number  # noqa: RET504


MASKS = {
    "floats": _floats, "integers": _integers, "turned round": _turned_round,
    "in a list": lambda done: [0.0 if done else 1.0],
    "computed with": lambda done: (0.5 if done else -2.0) * 3 + 1, "itself": lambda done: done,
    "by hand": lambda done: 1 - done, "in an expression": lambda done: 2 * (3 if done else 5) - 1,
    "zeros of both signs": lambda done: [-0.0 if done else 0.0],
}  # fmt: skip


@pytest.mark.parametrize("name", MASKS)
def test_a_number_that_a_drawn_flag_chooses_is_no_branch(name):
    compiled = assert_as_eager(_replay(lambda k: k % 3 == 0, MASKS[name]), [(jtorch.ones(3),)] * 9)
    assert not compiled.retraces


EAGER_MASKS = {
    "texts": lambda done: len("done" if done else "go"), "both kinds": lambda done: +(0 if done else 1.0),
    "returned at once": lambda done: 0.0 if done else 1.0,
    "a branch": lambda done: _branch(done), "a size": lambda done: len([0.5] * (2 if done else 1)),
    "and": lambda done: (done and 3.0) or 2.0, "nested": lambda done: 1.0 if done else (2.0 if done else 3.0),
}  # fmt: skip


def _branch(done):
    if done:
        return 5.0
    return 7.0


@pytest.mark.parametrize("name", EAGER_MASKS)
def test_what_else_a_drawn_flag_decides_is_eager_modes(name):
    program = _replay(lambda k: k % 3 == 0, EAGER_MASKS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        random.seed(1)
        expected = [plain(program(jtorch.ones(3))) for _ in range(6)]
        random.seed(1)
        compiled = jtorch.compile(program, fullgraph=False)
        assert [plain(compiled(jtorch.ones(3))) for _ in range(6)] == expected
