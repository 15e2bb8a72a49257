"""A run that is stopped and gone on with has the bits of one that was not, whatever it is made of."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

import jtorch
from jtorch import nn
from jtorch.optim import lr_scheduler
from jtorch.training import Callback, ModelCheckpoint, Trainer, seed_everything
from jtorch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset
from tests.machine_code import needs_kernels
from tests.training.tasks import ITEMS, Run, StopAfter, assert_same, differences

BATCHES = -(-ITEMS // 4)
COMPILED = pytest.param(True, marks=needs_kernels, id="compiled")
EAGER = pytest.param(False, id="eager")


@pytest.mark.slow
@pytest.mark.parametrize("compile", [EAGER, COMPILED])
def test_stopped_after_any_batch(compile, tmp_path):
    """Shuffled, with dropout, noise, a schedule of steps and one of epochs, accumulation and clipping."""
    run = Run(str(tmp_path / "whole"), compile=compile, accumulate=4)  # 6 batches: 4, and 2 that are left
    assert not run.go().interrupted
    for k in range(1, run.epochs * BATCHES + 1):
        stopped = run.in_folder(tmp_path / f"after {k}")
        trainer = stopped.go(stop_after=k)
        assert trainer.interrupted
        assert trainer.position[:2] == ((k - 1) // BATCHES, (k - 1) % BATCHES + 1)
        assert not stopped.go(seed=k).interrupted
        assert_same(run.folder, stopped.folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"mixed": True, "accumulate": 2},
        {"mixed": True, "accumulate": 4, "compile": True},
        {"own_generator": True, "accumulate": 1},
        {"workers": 2},
        {"workers": 1, "own_generator": True, "accumulate": 1},
    ],
    ids=str,
)
def test_stopped_after_every_other_batch(options, tmp_path):
    """One chain of processes, each of which makes two batches."""
    if options.get("compile"):
        pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    run = Run(str(tmp_path / "whole"), **options)
    run.go()
    chain = run.in_folder(tmp_path / "chain")
    for k in range(run.epochs * BATCHES // 2 + 1):
        if not chain.go(stop_after=2, seed=k).interrupted:
            break
    else:
        raise AssertionError("it never came to its end")
    assert k >= run.epochs * BATCHES // 2 - 1
    assert_same(run.folder, chain.folder)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_another_number_of_workers_goes_on_the_same(workers, tmp_path):
    """Random items are those of their batch where workers make them, but here those of the program."""
    run = Run(str(tmp_path / "whole"), workers=2)
    run.go()
    other = run.in_folder(tmp_path / "other")
    other.go(stop_after=5)
    changed = Run(other.folder, workers=workers)
    changed.go()
    if workers:
        assert_same(run.folder, changed.folder)
    else:
        with pytest.raises(AssertionError):
            assert_same(run.folder, changed.folder)


class Task(nn.Module):
    def __init__(self, configure):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.norm = nn.BatchNorm1d(2)
        self.configure_optimizers = lambda: configure(self.parameters())

    def training_step(self, batch):
        return self.norm(self.layer(nn.functional.dropout(batch[0]))).square().mean()


def _trained(configure, folder, stops, loader, epochs=3, trained=None):
    """The state at the end of a run that was stopped after ``stops`` batches each time."""
    for stop in [*stops, 0]:
        seed_everything(5)
        task = Task(configure)
        checkpoint = ModelCheckpoint(folder, asynchronous=False)
        callbacks = [checkpoint, *([StopAfter(stop)] if stop else [])]
        trainer = Trainer(max_epochs=epochs, callbacks=callbacks, enable_progress_bar=False)
        trainer.fit(task, loader(), ckpt_path="last")
        assert trainer.interrupted == bool(stop)
    state = jtorch.load(checkpoint.last_model_path)
    del state["callbacks"]
    return state


def _items():
    rows = jtorch.linspace(-1, 1, 30).reshape(10, 3)
    return DataLoader(TensorDataset(rows), 2, shuffle=True)


OPTIMIZERS = {
    "SGD": {"momentum": 0.9, "nesterov": True}, "Adam": {"amsgrad": True}, "AdamW": {}, "NAdam": {},
    "RAdam": {}, "Adamax": {}, "Adagrad": {}, "Adadelta": {}, "Adafactor": {}, "Rprop": {}, "ASGD": {},
    "RMSprop": {"momentum": 0.5, "centered": True},
    "LBFGS": {"max_iter": 3, "line_search_fn": "strong_wolfe"},
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer(name, tmp_path):
    def configure(parameters):
        return getattr(jtorch.optim, name)(parameters, lr=0.01, **OPTIMIZERS[name])

    whole = _trained(configure, tmp_path / "whole", [], _items)
    assert differences(whole, _trained(configure, tmp_path / "stopped", [3, 4, 5], _items)) == []


class Warmup:
    """A rule with a state, which LambdaLR keeps."""

    def __init__(self):
        self.calls = 0

    def __call__(self, epoch):
        self.calls += 1
        return 1 / (self.calls + epoch)


SCHEDULES = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, Warmup()),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda epoch: 0.9),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [2, 4, 9]),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, total_iters=4),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 12),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 7),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 4),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o), lr_scheduler.StepLR(o, 2)], [3]
    ),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.LinearLR(o), lr_scheduler.StepLR(o, 2)]
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule(name, tmp_path):
    def configure(parameters):
        optimizer = jtorch.optim.SGD(parameters, lr=0.05, momentum=0.5)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": SCHEDULES[name](optimizer), "interval": "step"},
        }

    whole = _trained(configure, tmp_path / "whole", [], _items)
    assert differences(whole, _trained(configure, tmp_path / "stopped", [3, 4, 5], _items)) == []


class Freezes(Callback):
    """After the first epoch the norm evaluates and the layer's bias is left alone."""

    def on_train_epoch_end(self, trainer, pl_module):
        if trainer.current_epoch == 0:
            pl_module.norm.eval()
            pl_module.layer.bias.requires_grad_(False)


@pytest.mark.slow
@pytest.mark.parametrize("compile", [EAGER, COMPILED])
def test_what_callbacks_froze_stays_so(compile, tmp_path):
    def run(folder, *callbacks):
        seed_everything(5)
        task = Task(lambda parameters: jtorch.optim.SGD(parameters, lr=0.05))
        checkpoint = ModelCheckpoint(folder, asynchronous=False)
        trainer = Trainer(max_epochs=3, compile=compile, callbacks=[Freezes(), checkpoint, *callbacks])
        trainer.fit(task, _items(), ckpt_path="last")
        state = jtorch.load(checkpoint.last_model_path)
        del state["callbacks"]
        return task, state

    task, whole = run(tmp_path / "whole")
    for _ in range(2):
        run(tmp_path / "stopped", StopAfter(4))
    again, state = run(tmp_path / "stopped")
    assert differences(whole, state) == []
    for one in (task, again):
        assert one.training and not one.norm.training
        assert not one.layer.bias.requires_grad and one.layer.weight.requires_grad


class Stream(IterableDataset):
    def __iter__(self):
        return ((row,) for row in jtorch.linspace(-1, 1, 24).reshape(8, 3))


class Noise:
    """Batches that are made as they are asked for, in an order that is drawn at the beginning."""

    def __iter__(self):
        for k in jtorch.randperm(5).tolist():
            yield (jtorch.randn(2, 3) + k + random.random(),)


class NoiseStream(Noise, IterableDataset):
    pass


def _distributed():
    data = TensorDataset(jtorch.linspace(-1, 1, 36).reshape(12, 3))
    return DataLoader(data, 2, sampler=DistributedSampler(data, 2, 0, shuffle=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    "loader",
    [
        _distributed,
        lambda: DataLoader(Stream(), 2),
        lambda: [(row,) for row in jtorch.linspace(-1, 1, 30).reshape(5, 2, 3)],
        Noise,
        lambda: DataLoader(NoiseStream(), None),
        lambda: DataLoader(NoiseStream(), None, num_workers=1),
    ],
    ids=["epochs of a sampler", "stream", "list", "noise", "stream of noise", "made by a worker"],
)
def test_other_loaders(loader, tmp_path):
    def configure(parameters):
        return jtorch.optim.Adam(parameters, lr=0.05)

    whole = _trained(configure, tmp_path / "whole", [], loader, epochs=4)
    assert differences(whole, _trained(configure, tmp_path / "stopped", [1, 3, 2], loader, epochs=4)) == []


class Doomed(TensorDataset):
    """A signal comes to the trainer and to the worker that makes item 1, as from a terminal: once."""

    def __init__(self, done):
        super().__init__(jtorch.linspace(-1, 1, 30).reshape(10, 3))
        self.done = done

    def __getitem__(self, k):
        if k == 1 and not self.done.exists():
            self.done.touch()
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(0.05)
            os._exit(1)
        return super().__getitem__(k)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["training", "validation"])
def test_a_signal_that_ends_the_workers_too(where, tmp_path):
    def run(folder, done):
        seed_everything(0)
        task = Task(lambda parameters: jtorch.optim.Adam(parameters, lr=0.1))
        task.validation_step = lambda batch: task.layer(batch[0] + jtorch.rand(3)).mean()
        checkpoint = ModelCheckpoint(folder, asynchronous=False)
        other = tmp_path if where == "training" else done
        train = Doomed(done if where == "training" else tmp_path)
        loaders = [DataLoader(data, 2, num_workers=2) for data in (train, Doomed(other))]
        trainer = Trainer(max_epochs=2, callbacks=checkpoint)
        trainer.fit(task, *loaders, ckpt_path="last")
        state = jtorch.load(checkpoint.last_model_path)
        del state["callbacks"]
        return trainer.interrupted, state

    interrupted, state = run(tmp_path / "a", tmp_path / "done")
    assert interrupted and state["drained"] == (where == "validation")
    assert state["batch"] == (0 if where == "training" else 5)
    assert differences(run(tmp_path / "a", tmp_path), run(tmp_path / "b", tmp_path)) == []


def test_interrupted_in_validation(tmp_path):
    """It is done again, from where generators and the loader stood before it."""
    whole, stopped = (Run(str(tmp_path / name), every=1000) for name in ("whole", "stopped"))
    whole.go()
    trainer = stopped.go(stop_in_validation=True)
    assert trainer.interrupted and trainer.position == (0, BATCHES, True, 3, 0)
    stopped.go(seed=1)
    assert_same(whole.folder, stopped.folder)
