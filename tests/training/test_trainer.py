"""The loop: what is called when, against loops written by hand, and what is refused."""

from __future__ import annotations

import io
import os
import random
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch import nn
from jtorch.errors import CompileError
from jtorch.training import (
    Callback,
    EarlyStopping,
    JSONLogger,
    ModelCheckpoint,
    ProgressBar,
    Trainer,
    seed_everything,
)
from jtorch.utils.data import DataLoader, RandomSampler, TensorDataset
from tests.machine_code import needs_kernels
from tests.training.tasks import differences

MODES = [pytest.param(False, id="eager"), pytest.param(True, id="compiled", marks=needs_kernels)]
jtorch.manual_seed(0)
X, Y = jtorch.randn(10, 4), jtorch.randn(10, 1)


class Task(nn.Module):
    def __init__(self, configure=None, seed=0):
        super().__init__()
        jtorch.manual_seed(seed)
        self.layers = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
        self.configure = configure or (lambda task: jtorch.optim.Adam(task.parameters(), lr=0.1))

    def training_step(self, batch):
        x, y = batch
        return F.mse_loss(self.layers(x), y)

    def validation_step(self, batch):
        return self.training_step(batch)

    def configure_optimizers(self):
        return self.configure(self)


def loader(batch_size=3):
    return DataLoader(TensorDataset(X, Y), batch_size)


def fit(task, train=None, val=None, **options):
    options = {"max_epochs": 2, "enable_progress_bar": False, **options}
    trainer = Trainer(**options)
    trainer.fit(task, loader() if train is None else train, val)
    return trainer


# -- the numbers of a loop written by hand -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("compile", MODES)
@pytest.mark.parametrize("clip", [None, "norm", "value"])
def test_the_loop_by_hand(compile, clip):
    """Epochs of 4 batches in steps of 3 and 1."""
    by_hand, task = Task(), Task()
    optimizer = jtorch.optim.Adam(by_hand.parameters(), lr=0.1)

    def gradients(x, y):
        (F.mse_loss(by_hand.layers(x), y) / 3).backward()

    if compile:
        gradients = jtorch.compile(gradients)
    for _ in range(2):
        for k, (x, y) in enumerate(loader()):
            gradients(x, y)
            if k not in (2, 3):
                continue
            if clip:
                getattr(nn.utils, f"clip_grad_{clip}_")(by_hand.parameters(), 0.05)
            optimizer.step()
            optimizer.zero_grad()
    options = {"gradient_clip_val": 0.05, "gradient_clip_algorithm": clip} if clip else {}
    trainer = fit(task, compile=compile, accumulate_grad_batches=3, **options)
    assert trainer.global_step == 4
    for mine, theirs in zip(task.parameters(), by_hand.parameters(), strict=True):
        assert jtorch.allclose(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("compile", MODES)
def test_several_optimizers_step_together(compile):
    def configure(task):
        first, last = task.layers[0], task.layers[2]
        return jtorch.optim.SGD(first.parameters(), lr=0.1), jtorch.optim.Adam(last.parameters(), lr=0.1)

    task, by_hand = Task(configure), Task()
    optimizers = configure(by_hand)
    for batch in loader():
        loss = by_hand.training_step(batch)
        loss.backward()
        for one in optimizers:
            one.step()
            one.zero_grad()
    fit(task, max_epochs=1, compile=compile)
    for mine, theirs in zip(task.parameters(), by_hand.parameters(), strict=True):
        assert jtorch.allclose(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("compile", MODES)
def test_lbfgs_evaluates_its_closure(compile):
    task = Task(lambda task: jtorch.optim.LBFGS(task.parameters(), line_search_fn="strong_wolfe"))
    before = task.training_step((X, Y)).item()
    trainer = fit(task, [(X, Y)], max_epochs=3, compile=compile)
    assert trainer.global_step == 3 and task.training_step((X, Y)).item() < before / 2
    with pytest.raises(ValueError, match="LBFGS evaluates each batch several times"):
        fit(task, accumulate_grad_batches=2)


@pytest.mark.slow
@pytest.mark.parametrize("compile", MODES)
def test_a_scaler_leaves_out_steps_that_overflow(compile):
    task = Task()
    before = [p.tolist() for p in task.parameters()]
    scaler = jtorch.amp.GradScaler("cpu", init_scale=2.0**140)
    trainer = fit(task, max_steps=1, scaler=scaler, compile=compile, gradient_clip_val=1.0)
    assert scaler.get_scale() == 2.0**139 and trainer.global_step == 1
    assert [p.tolist() for p in task.parameters()] == before
    fit(task, max_epochs=20, scaler=scaler, compile=compile, gradient_clip_val=1.0)
    assert [p.tolist() for p in task.parameters()] != before


@pytest.mark.slow
@needs_kernels
@pytest.mark.parametrize("compile", MODES)
@pytest.mark.parametrize("precision", ["16-mixed", "bf16-mixed"])
def test_a_precision_is_autocast_and_scaling_by_hand(compile, precision):
    """The forward pass alone is in 16 bits, and float16 alone has scaled losses."""
    dtype = {"16-mixed": jtorch.float16, "bf16-mixed": jtorch.bfloat16}[precision]
    by_hand, task = Task(), Task()
    optimizer = jtorch.optim.Adam(by_hand.parameters(), lr=0.1)
    scaler = jtorch.amp.GradScaler("cpu", enabled=precision == "16-mixed")
    for _ in range(2):
        for batch in loader():
            optimizer.zero_grad()
            with jtorch.autocast("cpu", dtype=dtype):
                loss = by_hand.training_step(batch)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    fit(task, precision=precision, compile=compile)
    plain = Task()
    fit(plain, compile=False)
    pairs = zip(task.parameters(), by_hand.parameters(), plain.parameters(), strict=True)
    for ours, expected, other in pairs:
        jtorch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-4)
        assert ours.dtype is jtorch.float32 and not jtorch.equal(ours, other)


def test_a_compiled_step_is_recorded_once_for_each_part():
    task = Task()
    trainer = fit(task, loader(5), max_epochs=6, accumulate_grad_batches=2, compile=True)
    assert trainer._steps.batch.timings.first_call > 0
    assert len(trainer._steps.batch.retraces) <= 2


# -- when it ends, and what is called ------------------------------------------------------------------------


def test_where_it_stops():
    assert fit(Task(), max_steps=5, max_epochs=None).position == (1, 1, False, 5, 0)
    assert fit(Task(), max_steps=8).position == (2, 0, False, 8, 0)  # whole epochs end as such
    assert fit(Task(), max_steps=99).current_epoch == 2
    assert fit(Task(), max_epochs=0).global_step == 0
    with pytest.raises(ValueError, match="max_epochs, max_steps"):
        Trainer()


class Events(Callback):
    def __init__(self):
        self.seen = []

    def on_fit_start(self, trainer, pl_module):
        self.seen.append("begin")

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        assert outputs["loss"].grad_fn is None and len(batch[0]) in (3, 1)
        self.seen.append(batch_idx)

    def on_validation_end(self, trainer, pl_module):
        self.seen.append(sorted(trainer.callback_metrics))

    def on_train_epoch_end(self, trainer, pl_module):
        self.seen.append(f"epoch {trainer.current_epoch}")

    def on_fit_end(self, trainer, pl_module):
        self.seen.append("end")


def test_the_order_of_events():
    events = Events()
    fit(Task(), val=loader(), callbacks=events, check_val_every_n_epoch=2)
    metrics = ["loss", "val_loss"]
    assert events.seen == ["begin", 0, 1, 2, 3, "epoch 0", 0, 1, 2, 3, metrics, "epoch 1", "end"]


def test_schedules_of_steps_and_epochs():
    rates = []

    class Rates(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            rates.append(pl_module.optimizer.param_groups[0]["lr"])

    def configure(task):
        task.optimizer = jtorch.optim.SGD(task.parameters(), lr=1.0)
        by_step = jtorch.optim.lr_scheduler.StepLR(task.optimizer, 2, 0.5)
        by_epoch = jtorch.optim.lr_scheduler.LambdaLR(task.optimizer, lambda epoch: 1.0)
        return [task.optimizer], [{"scheduler": by_step, "interval": "step"}, by_epoch]

    fit(Task(configure), callbacks=Rates(), accumulate_grad_batches=2, max_epochs=1)
    assert rates == [1.0, 1.0, 1.0, 0.5]


def losses_of(*values):
    """A task whose validation gives these losses."""
    task, given = Task(), iter(values)
    task.validation_step = lambda batch: {"val_loss": next(given)}
    return task


@pytest.mark.parametrize(
    ("losses", "epochs"),
    [
        ((3.0, 2.0, 2.5, 2.4, 1.0), 4),
        ((3.0, 2.0, 1.0, 0.5, 0.4), 5),
        ((3.0, float("nan"), 1.0), 2),
        ((3.0, float("inf"), 1.0), 2),
    ],
)
def test_early_stopping(losses, epochs):
    stopping = EarlyStopping("val_loss", patience=2)
    trainer = fit(losses_of(*losses), val=[X], callbacks=[stopping], max_epochs=5)
    assert trainer.current_epoch == epochs and trainer.should_stop == (epochs < 5)
    assert stopping.best_score == min(losses[:epochs])


def test_early_stopping_by_little_or_the_other_way_round():
    trainer = fit(
        losses_of(3.0, 2.95, 2.9, 2.85), val=[X], callbacks=EarlyStopping("val_loss", 0.5, 1), max_epochs=4
    )
    assert trainer.current_epoch == 2
    stopping = EarlyStopping("val_loss", mode="max", patience=1)
    assert fit(losses_of(1.0, 2.0, 1.5, 3.0), val=[X], callbacks=stopping, max_epochs=4).current_epoch == 3


def test_a_run_that_stopped_early_stays_so(tmp_path):
    def run(max_epochs, patience=1):
        callbacks = [EarlyStopping("val_loss", patience=patience), ModelCheckpoint(tmp_path)]
        trainer = Trainer(max_epochs=max_epochs, callbacks=callbacks, enable_progress_bar=False)
        trainer.fit(losses_of(*losses[trainer.current_epoch :]), loader(), [X], ckpt_path="last")
        return trainer.current_epoch

    losses = [1.0, 2.0, 3.0]
    assert run(9) == 2 and run(9) == 2
    assert run(3, patience=5) == 3  # unless it is asked for more


class StopIn(Callback):
    """Asks for the end of the run in one of its epochs, at a batch or at the epoch's end."""

    def __init__(self, epoch, batch=None, back=False):
        self.epoch, self.batch, self.back = epoch, batch, back

    def on_fit_start(self, trainer, pl_module):
        if self.back:
            trainer.should_stop = False

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if (trainer.current_epoch, batch_idx) == (self.epoch, self.batch):
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer, pl_module):
        if trainer.current_epoch == self.epoch and self.batch is None:
            trainer.should_stop = True


def test_a_run_that_a_callback_stopped_stays_so(tmp_path):
    def run(stop):
        trainer = Trainer(max_epochs=4, callbacks=[stop, ModelCheckpoint(tmp_path)])
        trainer.fit(Task(), loader(), ckpt_path="last")
        return trainer.position, trainer.should_stop

    assert run(StopIn(0)) == ((1, 0, False, 4, 0), True)
    assert run(StopIn(0)) == ((1, 0, False, 4, 0), True)
    assert run(StopIn(2, back=True)) == ((3, 0, False, 12, 0), True)
    trainer = Trainer(max_epochs=2, callbacks=StopIn(0))
    for _ in range(2):  # the second one is a new run
        trainer.fit(Task(), loader())
        assert trainer.current_epoch == 1


def test_an_epoch_in_which_a_stop_was_asked_for_is_brought_to_its_end(tmp_path):
    for signals in ([Signal(signal.SIGTERM)], []):
        callbacks = [StopIn(0, batch=0), *signals, ModelCheckpoint(tmp_path)]
        trainer = Trainer(max_epochs=4, callbacks=callbacks)
        trainer.fit(Task(), loader(), ckpt_path="last")
        assert trainer.should_stop and trainer.interrupted == bool(signals)
    assert trainer.position == (1, 0, False, 4, 0)


def test_a_metric_that_is_not_there():
    with pytest.raises(KeyError, match=r"EarlyStopping\(monitor='acc'\): .* gave loss"):
        fit(Task(), callbacks=EarlyStopping("acc"))
    with pytest.raises(ValueError, match="mode is 'min' or 'max'"):
        EarlyStopping("loss", mode="low")


# -- validation ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compile", MODES)
def test_validation_is_the_mean_over_samples(compile):
    task = Task()
    trainer = Trainer(max_epochs=1, compile=compile, enable_progress_bar=False)
    found = trainer.validate(task, loader(4))  # 4, 4 and 2
    assert found["val_loss"] == pytest.approx(F.mse_loss(task.layers(X), Y).item(), rel=1e-6)
    assert all(p.grad is None for p in task.parameters())


def test_validation_after_an_interruption_is_whole(tmp_path):
    trainer = fit(task := Task(), callbacks=[Signal(signal.SIGTERM), ModelCheckpoint(tmp_path)])
    assert trainer.interrupted
    assert trainer.validate(task, loader()) == Trainer(max_epochs=1).validate(task, loader())
    assert trainer.interrupted


def test_validation_keeps_the_modes_of_modules():
    task = Task()
    task.layers[0].eval()
    modes = []
    task.validation_step = lambda batch: modes.append(task.training) or {"n": float(len(batch["x"]))}
    found = Trainer(max_epochs=1).validate(task, [{"x": X}, {"x": X[:5]}])
    assert found == {"n": (100 + 25) / 15} and modes == [False, False]
    assert task.training and not task.layers[0].training


def validated(step, batches):
    task = Task()
    task.validation_step = step
    return Trainer(max_epochs=1).validate(task, batches)


def test_samples_are_counted_by_the_first_tensor_anywhere_in_a_batch():
    def rows(*values):
        return {"id": jtorch.tensor(7), "name": ["a"] * len(values), "in": ([], {"x": jtorch.tensor(values)})}

    def mean(batch):
        return {"x": batch["in"][1]["x"].mean()}

    assert validated(mean, [rows(0.0, 1.0, 2.0, 3.0), rows(4.0)]) == {"x": 2.0}
    assert validated(lambda batch: {"n": len(batch)}, [["a", "b"], ["c"]]) == {"n": 1.5}  # no tensor: 1 each


def test_a_metric_of_some_batches_is_the_mean_over_their_samples():
    def step(batch):
        return {"always": 1, **({"rare": np.float32(batch.shape[0])} if batch.shape[0] < 4 else {})}

    assert validated(step, [X[:4], X[:3], X[:1], X]) == {"always": 1.0, "rare": 10 / 4}


@pytest.mark.parametrize("compile", MODES)
def test_a_metric_for_each_sample_has_the_mean_over_all(compile):
    task = Task()
    task.validation_step = lambda batch: {"x": batch[0][:, 0], "below": batch[0][:, :1] < 0}
    found = Trainer(max_epochs=1, compile=compile).validate(task, loader(3))  # the last one has 1 sample
    below = (X[:, 0] < 0).float().mean().item()
    assert found == pytest.approx({"x": X[:, 0].mean().item(), "below": below}, rel=1e-6)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (jtorch.ones(2, 2), r"'m', a tensor of shape \(2, 2\), for a batch of 10 samples: a metric is"),
        (jtorch.ones(0), r"'m', a tensor of shape \(0,\)"),
        ("good", "'m', str"),
    ],
)
def test_a_metric_that_is_no_number_is_an_error(metric, message):
    with pytest.raises(TypeError, match=message):
        validated(lambda batch: {"m": metric}, [X])


def test_who_looks_at_a_metric_of_validation_does_so_after_epochs_that_validate(tmp_path):
    looked = []

    class Plateau(jtorch.optim.lr_scheduler.ReduceLROnPlateau):
        def step(self, value):
            looked.append(value)
            super().step(value)

    def configure(task):
        scheduler = Plateau(jtorch.optim.SGD(task.parameters(), lr=0.1))
        return {
            "optimizer": scheduler.optimizer,
            "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"},
        }

    task, given = Task(configure), iter([3.0, 2.0, 4.0, 5.0, 1.0])
    task.validation_step = lambda batch: {"val_loss": next(given)}
    best = ModelCheckpoint(tmp_path, monitor="val_loss")
    callbacks = [EarlyStopping("val_loss", patience=2), best]
    trainer = fit(task, val=[X], callbacks=callbacks, max_epochs=20, check_val_every_n_epoch=3)
    assert trainer.current_epoch == 12 and looked == [3.0, 2.0, 4.0, 5.0]
    assert best.best_model_score == 2.0 and "epoch=6-" in best.best_model_path


def test_a_metric_of_training_is_looked_at_after_each_epoch():
    stopping = EarlyStopping("loss", patience=2, min_delta=1e9)
    options = {"max_epochs": 20, "check_val_every_n_epoch": 5}
    assert fit(Task(), val=loader(), callbacks=stopping, **options).current_epoch == 3
    with pytest.raises(KeyError, match=r"EarlyStopping\(monitor='acc'\): .* gave loss, val_loss"):
        fit(Task(), val=loader(), callbacks=EarlyStopping("acc"), **options)


# -- signals and errors --------------------------------------------------------------------------------------


class Signal(Callback):
    def __init__(self, *numbers):
        self.numbers = numbers

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        for number in self.numbers:
            os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_after_the_step(number, tmp_path):
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    checkpoint = ModelCheckpoint(tmp_path)
    trainer = fit(Task(), callbacks=[Signal(number), checkpoint])
    assert trainer.interrupted and trainer.position == (0, 1, False, 1, 0)
    assert jtorch.load(checkpoint.last_model_path)["batch"] == 1
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_signal_without_checkpoints_is_told_of():
    with pytest.warns(UserWarning, match="without a ModelCheckpoint nothing is saved"):
        assert fit(Task(), callbacks=Signal(signal.SIGTERM)).interrupted


def test_a_second_control_c_ends_it_at_once():
    with pytest.raises(KeyboardInterrupt):
        fit(Task(), callbacks=Signal(signal.SIGINT, signal.SIGINT))


def test_in_another_thread_it_does_without_signals():
    done = []
    thread = threading.Thread(target=lambda: done.append(fit(Task()).current_epoch))
    thread.start()
    thread.join()
    assert done == [2]


def test_an_error_of_the_task_comes_through_and_the_run_goes_on(tmp_path):
    class Fails(Task):
        def training_step(self, batch):
            if self.left == 0:
                raise ArithmeticError("the third batch")
            self.left -= 1
            return super().training_step(batch)

    def run(left, folder):
        task = Fails()
        task.left = left
        checkpoint = ModelCheckpoint(folder, every_n_train_steps=1)
        trainer = Trainer(max_epochs=2, callbacks=checkpoint, enable_progress_bar=False)
        try:
            trainer.fit(task, loader(), ckpt_path="last")
        finally:
            state = jtorch.load(checkpoint.last_model_path)
        return {k: v for k, v in state.items() if k != "callbacks"}

    with pytest.raises(ArithmeticError, match="the third batch"):
        run(2, tmp_path / "a")
    assert differences(run(99, tmp_path / "a"), run(99, tmp_path / "b")) == []


def test_a_generator_is_gone_through_once():
    with pytest.raises(RuntimeError, match="epoch 1 has no batches: generator gave none"):
        fit(Task(), (batch for batch in [(X, Y)]))
    assert fit(Task(), (batch for batch in [(X, Y)]), max_epochs=1).global_step == 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"log_every_n_steps": 0}, ValueError, "log_every_n_steps is 1 or more, got 0"),
        ({"check_val_every_n_epoch": 0}, ValueError, "check_val_every_n_epoch is 1 or more, got 0"),
        ({"precision": "16"}, ValueError, "precision is one of"),
        ({"accumulate_grad_batches": 0}, ValueError, "1 or more"),
        ({"gradient_clip_algorithm": "l2"}, ValueError, "'norm', 'value'"),
        ({"callbacks": [Events(), Events()]}, ValueError, "state_key 'Events'"),
        ({"callbacks": [ModelCheckpoint("a"), ModelCheckpoint("b")]}, ValueError, "one ModelCheckpoint"),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_options_that_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        Trainer(max_epochs=1, **options)


@pytest.mark.parametrize(
    ("configure", "error", "message"),
    [
        (lambda task: None, TypeError, r"configure_optimizers\(\) gives an optimizer"),
        (lambda task: jtorch.optim.SGD([jtorch.ones(1, requires_grad=True)]), ValueError, "none of Task"),
        (lambda task: _with_plateau(task), ValueError, "ReduceLROnPlateau needs the name of a metric"),
        (lambda task: _with_plateau(task, interval="batch"), ValueError, "'step' or 'epoch'"),
        (lambda task: _with_plateau(task, frequency=2), ValueError, "unknown option 'frequency'"),
    ],
)
def test_optimizers_that_are_refused(configure, error, message):
    with pytest.raises(error, match=message):
        fit(Task(configure))


def _with_plateau(task, **options):
    optimizer = jtorch.optim.SGD(task.parameters())
    scheduler = jtorch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, **options}}


@pytest.mark.parametrize("returned", [None, 1.0, {"score": X.sum()}])
def test_steps_that_return_no_loss(returned):
    task = Task()
    task.training_step = lambda batch: returned
    with pytest.raises(TypeError, match="training_step returns a"):
        fit(task)


def test_an_order_that_cannot_be_had_again_matters_to_checkpoints_alone(tmp_path):
    data = TensorDataset(X, Y)
    loader = DataLoader(data, 3, sampler=RandomSampler(data, replacement=True, num_samples=10))
    assert fit(Task(), loader).global_step == 8
    with pytest.raises(RuntimeError, match="draws again and again"):
        fit(Task(), loader, callbacks=ModelCheckpoint(tmp_path))
    with pytest.raises(RuntimeError, match="there is no run yet"):
        Trainer(max_epochs=1).save_checkpoint(tmp_path / "none.ckpt")


def test_a_checkpoint_of_ones_own(tmp_path):
    whole, trainer = Task(), fit(task := Task(), max_epochs=1)
    trainer.save_checkpoint(tmp_path / "own.ckpt")
    again = Trainer(max_epochs=2)
    again.fit(task, loader(), ckpt_path=tmp_path / "own.ckpt")
    fit(whole)
    assert differences(dict(task.state_dict()), dict(whole.state_dict())) == []


class SaveIn(Callback):
    """Asks for a checkpoint in one event of epoch 1."""

    def __init__(self, event=None, path=None):
        if event is not None:
            setattr(self, event, lambda trainer, *rest: self._save(trainer, path))

    def _save(self, trainer, path):
        if trainer.current_epoch == 1:
            trainer.save_checkpoint(path)


class CountBatches(Callback):
    def __init__(self):
        self.batches = 0

    def state_dict(self):
        return {"batches": self.batches}

    def load_state_dict(self, state_dict):
        self.batches = state_dict["batches"]

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.batches += 1


@pytest.mark.parametrize("event", ["on_train_batch_end", "on_validation_end", "on_train_epoch_end"])
def test_a_checkpoint_that_a_callback_asked_for_is_exact(event, tmp_path):
    def configure(task):
        optimizer = jtorch.optim.SGD(task.parameters(), lr=0.1)
        return [optimizer], [jtorch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

    def run(callback, **from_where):
        logger = JSONLogger(tmp_path)
        callbacks = [callback, CountBatches()]
        trainer = Trainer(max_epochs=4, callbacks=callbacks, logger=logger, log_every_n_steps=1)
        trainer.fit(Task(configure), loader(), loader(), **from_where)
        return {**trainer.state_dict(), "lines": logger.path.read_text()}

    whole = run(SaveIn(event, tmp_path / "own.ckpt"))
    assert differences(whole, run(SaveIn(), ckpt_path=tmp_path / "own.ckpt")) == []


def test_last_needs_a_place_to_look():
    with pytest.raises(ValueError, match="no ModelCheckpoint"):
        Trainer(max_epochs=1).fit(Task(), loader(), ckpt_path="last")


# -- going on with other options -----------------------------------------------------------------------------


def _begun(tmp_path, batches=2):
    fit(Task(), loader(), max_steps=batches, callbacks=ModelCheckpoint(tmp_path))


def test_other_options_are_told_of(tmp_path):
    _begun(tmp_path)
    task = Task(lambda task: jtorch.optim.Adam(task.parameters(), lr=0.5))
    trainer = Trainer(max_epochs=1, gradient_clip_val=1.0, callbacks=ModelCheckpoint(tmp_path))
    with pytest.warns(UserWarning) as told:
        trainer.fit(task, loader(), ckpt_path="last")
    assert "gradient_clip_val was None and is 1.0, Adam[0] lr was 0.1 and is 0.5" in str(told[0].message)
    assert trainer._optimizers[0].param_groups[0]["lr"] == 0.1


def test_other_batches_within_an_epoch_are_an_error(tmp_path):
    _begun(tmp_path)
    trainer = Trainer(max_epochs=1, callbacks=ModelCheckpoint(tmp_path))
    with pytest.raises(ValueError, match=r"'batch_size': 3, 'length': 4.*'batch_size': 5, 'length': 2"):
        trainer.fit(Task(), loader(5), ckpt_path="last")


def test_another_task_is_an_error(tmp_path):
    _begun(tmp_path)

    def configure(task):
        return [jtorch.optim.SGD(layer.parameters()) for layer in (task.layers[0], task.layers[2])]

    trainer = Trainer(max_epochs=1, callbacks=ModelCheckpoint(tmp_path))
    with pytest.raises(ValueError, match=r"has 1 optimizer_states, configure_optimizers\(\) gives 2"):
        trainer.fit(Task(configure), loader(), ckpt_path="last")
    task = Task()
    task.extra = nn.Linear(1, 1)
    with pytest.raises(RuntimeError, match=r"Missing key.*extra\.weight"):
        trainer.fit(task, loader(), ckpt_path="last")


def test_more_steps_are_the_same_steps(tmp_path):
    """Trained for 3 steps, then for 8, it is as if it had been 8 at once."""
    for steps in (3, 8):
        trainer = Trainer(max_steps=steps, callbacks=ModelCheckpoint(tmp_path / "a"))
        trainer.fit(once := Task(seed=steps if steps == 8 else 0), loader(), ckpt_path="last")
    fit(whole := Task(), max_steps=8, max_epochs=None)
    assert differences(dict(once.state_dict()), dict(whole.state_dict())) == []


# -- what is shown -------------------------------------------------------------------------------------------


def test_logged_every_few_steps(tmp_path):
    logger = JSONLogger(tmp_path)
    fit(Task(), val=[(X, Y)], logger=logger, log_every_n_steps=3)
    steps = [(line.split(",")[0], "val_loss" in line) for line in logger.path.read_text().splitlines()]
    assert steps == [('{"step": 3', False), ('{"step": 4', True), ('{"step": 6', False), ('{"step": 8', True)]


def test_what_is_left_of_an_accumulation_is_logged_too(tmp_path):
    """Epochs of 4 batches in updates of 3 and 1; stopped after each batch, too."""

    def run(folder, *callbacks):
        logger = JSONLogger(folder)
        stopping = EarlyStopping("loss", patience=1, min_delta=1e9)
        trainer = Trainer(
            max_epochs=9, accumulate_grad_batches=3, logger=logger, log_every_n_steps=2,
            check_val_every_n_epoch=3, callbacks=[stopping, ModelCheckpoint(folder / "kept"), *callbacks],
        )  # fmt: skip
        trainer.fit(Task(), loader(), loader(), ckpt_path="last")
        return trainer.interrupted, trainer.position, logger.path.read_text()

    whole = run(tmp_path / "whole")
    assert whole[:2] == (False, (2, 0, False, 4, 0))
    assert [line[:10] for line in whole[2].splitlines()] == ['{"step": 2', '{"step": 4']
    for _ in range(8):
        assert run(tmp_path / "stopped", Signal(signal.SIGTERM))[0]
    assert run(tmp_path / "stopped") == whole


def test_the_progress_bar():
    stream = io.StringIO()
    bar = ProgressBar(stream, refresh=0.0)
    trainer = SimpleNamespace(current_epoch=2, callback_metrics={"loss": 0.123456})
    bar.on_train_batch_end(trainer, None, {}, None, 6)
    bar.on_fit_end(trainer, None)
    assert stream.getvalue().startswith("\repoch 2, batch 7, loss 0.1235, ")
    assert stream.getvalue().endswith(" batches/s\x1b[K\n")
    (bar,) = Trainer(max_epochs=1, enable_progress_bar=True).callbacks
    assert isinstance(bar, ProgressBar)
    assert Trainer(max_epochs=1).callbacks == []


def test_seeds_of_all_generators():
    def draws():
        return random.random(), float(np.random.rand()), jtorch.rand(1).item()

    assert seed_everything(-3) == -3
    first = draws()
    seed_everything(-3)
    assert draws() == first


@needs_kernels
def test_what_cannot_be_recorded_names_the_line_of_the_task():
    task = Task()
    task.training_step = lambda batch: task.layers(batch[0]).mean() * len(os.urandom(1))
    with pytest.raises(CompileError, match=r"test_trainer\.py"):
        fit(task, compile=True)
