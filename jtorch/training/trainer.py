"""``Trainer``: the loop over epochs and batches, and the whole state of it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from jtorch.amp import GradScaler
from jtorch.nn import Module
from jtorch.training import files, state
from jtorch.training.callbacks import Callback, ProgressBar
from jtorch.training.checkpoint import ModelCheckpoint
from jtorch.training.interruption import Interruption
from jtorch.training.loggers import Logger
from jtorch.training.metrics import Means, scalars
from jtorch.training.processes import Alone, Together
from jtorch.training.setup import metric, optimizers_of
from jtorch.training.steps import Options, Steps, evaluation


class Trainer:
    """Trains a task: a Module with ``training_step(batch)``, which returns the loss or a dict with "loss" in
    it, and ``configure_optimizers()``; ``validation_step(batch)`` where there is a loader for it.

    A run that is killed at any moment goes on from its last checkpoint, in a new process that makes the same
    objects, and ends with the same bits: those of parameters, optimizers, metrics and all that is drawn.
    Ctrl-C and SIGTERM let the step end, write a checkpoint and end ``fit``; ``interrupted`` is True then.

    ``compile`` records the whole step, and the validation's. ``accumulate_grad_batches`` batches make a step;
    what is left of them at the end of an epoch makes one, too. Gradients of each optimizer are clipped by
    their common "norm" or each "value". ``precision`` "16-mixed" and "bf16-mixed" run steps under
    ``jtorch.autocast``; a GradScaler of your own is ``scaler``. Scalars that steps return are logged every
    ``log_every_n_steps`` updates, means over the samples of a validation after each. The progress bar is
    shown on terminals.

    ``distributed``: the processes of a launcher train together (``DistributedDataParallel``), each on its
    part of the batches. Metrics are the means of all, a signal to one of them ends all, and the first one
    writes logs and checkpoints; as many of them must go on from one.

    Raises ValueError for options that make no sense.
    Source: https://lightning.ai/docs/pytorch/stable/common/trainer.html

    >>> import jtorch
    >>> from jtorch.training import Trainer
    >>> class Line(jtorch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = jtorch.nn.Linear(1, 1)
    ...     def training_step(self, batch):
    ...         return ((self.layer(batch) - 2 * batch - 1) ** 2).mean()
    ...     def configure_optimizers(self):
    ...         return jtorch.optim.SGD(self.parameters(), lr=0.5)
    >>> task = Line()
    >>> Trainer(max_steps=100).fit(task, [jtorch.tensor([[-1.0], [1.0]])])
    >>> task.layer.weight.item(), task.layer.bias.item()
    (2.0, 1.0)
    """

    def __init__(
        self,
        *,
        max_epochs: int | None = None,
        max_steps: int | None = None,
        compile: bool = False,
        accumulate_grad_batches: int = 1,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str = "norm",
        precision: str = "32-true",
        scaler: GradScaler | None = None,
        callbacks: Sequence[Callback] | Callback = (),
        logger: Sequence[Logger] | Logger = (),
        log_every_n_steps: int = 50,
        check_val_every_n_epoch: int = 1,
        enable_progress_bar: bool | None = None,
        distributed: bool = False,
    ) -> None:
        if max_epochs is None and max_steps is None:
            raise ValueError("Trainer: say where to stop: max_epochs, max_steps or both")
        for name, every in (
            ("log_every_n_steps", log_every_n_steps), ("check_val_every_n_epoch", check_val_every_n_epoch),
        ):  # fmt: skip
            if every < 1:
                raise ValueError(f"Trainer: {name} is 1 or more, got {every}")
        self._processes = Together() if distributed else Alone()
        self.max_epochs, self.max_steps = max_epochs, max_steps
        self.options = Options(
            compile, accumulate_grad_batches, gradient_clip_val, gradient_clip_algorithm, precision
        )
        self.scaler = self.options.scaler() if scaler is None else scaler
        self.callbacks = [callbacks] if isinstance(callbacks, Callback) else list(callbacks)
        self.loggers = [logger] if isinstance(logger, Logger) else list(logger)
        self.log_every_n_steps, self.check_val_every_n_epoch = log_every_n_steps, check_val_every_n_epoch
        shown = ProgressBar.on_terminal() if enable_progress_bar is None else enable_progress_bar
        if shown and self.writes:
            self.callbacks.append(ProgressBar())
        self._checkpoint = self._find_checkpoint()
        self._interruption = Interruption()
        self._asked_for: list[Path] = []  # files to write when a run can be gone on with
        self._fitting = self._stops = False
        self._start_counting()

    def _find_checkpoint(self) -> ModelCheckpoint | None:
        found = [one for one in self.callbacks if isinstance(one, ModelCheckpoint)]
        if len(found) > 1:
            raise ValueError("Trainer: one ModelCheckpoint, since a run goes on from one place")
        keys = [one.state_key for one in self.callbacks]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise ValueError(f"two callbacks have the state_key {min(twice)!r}: override it in one of them")
        return found[0] if found else None

    def _start_counting(self) -> None:
        self.current_epoch = 0  # complete ones
        self.global_step = 0  # updates
        self._batch = 0  # batches of this epoch
        self._drained = False  # whether it has no more, and has not ended yet
        self._accumulated = 0  # batches since the last update
        self._epoch_generators: dict[str, Any] = {}  # where they stood when this epoch began
        self.callback_metrics: dict[str, float] = {}
        self._batch_metrics: dict[str, float] = {}  # of the last batch
        self._training_metrics: set[str] = set()  # the names that training steps gave
        self._validates = False  # at the end of this epoch
        self._asked_to_stop = False

    @property
    def should_stop(self) -> bool:
        """Whether the run ends after this epoch, and stays ended when it is started again.

        Set it, or override ``Callback.stopping`` for what a later process may see differently.
        """
        return self._asked_to_stop or any(one.stopping for one in self.callbacks)

    @should_stop.setter
    def should_stop(self, value: bool) -> None:
        self._asked_to_stop = value

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C or SIGTERM ended the last fit, in any process."""
        return self._stops if self._processes.count > 1 else self._interruption.asked

    @property
    def writes(self) -> bool:
        """Whether this process writes logs and checkpoints: the first one does."""
        return self._processes.rank == 0

    @property
    def position(self) -> tuple[int, ...]:
        """How far the run is: epochs, batches in this one, whether it has no more, updates, batches since."""
        return self.current_epoch, self._batch, self._drained, self.global_step, self._accumulated

    # -- what users call ---------------------------------------------------------------------------------

    def fit(
        self,
        model: Module,
        train_dataloaders: Any,
        val_dataloaders: Any = None,
        ckpt_path: str | os.PathLike | None = None,
    ) -> None:
        """Train ``model`` on the batches of a loader, or of any iterable that can be gone through again.

        ``ckpt_path`` is a checkpoint to go on from; "last" is the newest of the ModelCheckpoint that can be
        read, or the beginning where there is none. All objects are made as for the first run; the task's
        parameters are overwritten. Options that were changed since are warned of.

        Raises what the task's steps raise, RuntimeError for an epoch without batches, DataError for a
        checkpoint that is broken, ValueError for one of a loader with other batches.
        """
        loaded = self._loaded(ckpt_path)
        self._task, self._loader, self._validation_loader = model, train_dataloaders, val_dataloaders
        self._optimizers, self._schedules = optimizers_of(model)
        self._hyper_parameters = {**vars(self.options), **state.options_of(self._optimizers)}
        self._processes.check_loader(train_dataloaders)
        self._steps = Steps(model, self._optimizers, self.scaler, self.options, self._processes)
        self._evaluate = evaluation(model, self.options)
        self._start_counting()
        if loaded is not None:
            self.load_state_dict(loaded)
        if self._checkpoint is not None:
            self._checkpoint.begin(self, loaded is not None)
        self._stops = False
        if loaded is None:
            for logger in self._writing_loggers():
                logger.begin()
        with Interruption() as self._interruption:
            try:
                self._fitting = True
                self._tell("on_fit_start")
                if loaded is not None:  # last: whatever was before may have drawn
                    state.set_generators(self._processes.own(loaded)["generators"])
                self._train()
            finally:
                self._fitting, self._asked_for = False, []
                self._close()

    def validate(self, model: Module, dataloaders: Any) -> dict[str, float]:
        """The metrics that ``model.validation_step`` gives, each the mean over the samples of its batches, in
        all processes, which all call it.

        A batch has as many samples as the first tensor in it is long. Raises TypeError for a metric that is
        neither a number nor a tensor with one for each sample.
        """
        self._evaluate = evaluation(model, self.options)
        return self._mean_metrics(model, self._begun(dataloaders))

    def save_checkpoint(self, filepath: str | os.PathLike) -> None:
        """Write the state of the run that is going on, or has ended, as ModelCheckpoint does. Of several
        processes all call it.

        Called while ``fit`` runs (in a callback) it is written when the batch, or the epoch, is through with
        all callbacks, schedulers and logs: only there a run can be gone on with exactly.
        """
        if not hasattr(self, "_task"):
            raise RuntimeError("save_checkpoint: there is no run yet; call it in a callback, or after fit")
        self._asked_for.append(Path(filepath))
        if not self._fitting:
            self._write_asked_for()

    def _write_asked_for(self) -> None:
        paths, self._asked_for = self._asked_for, []
        for path in paths:
            content = self.state_dict()
            self.from_first(partial(files.write, content, path))

    def from_first(self, make: Callable[[], Any]) -> Any:
        """What ``make()`` gives in the first process, for all of them; where it raises, all do."""
        return self._processes.from_first(make)

    # -- the loop ----------------------------------------------------------------------------------------

    def _train(self) -> None:
        self._write_asked_for()
        while not self._is_done():
            self._train_epoch()
        if self._checkpoint is not None:
            self._checkpoint.at_end(self)
            self._processes.gathered(None)  # the file is there when fit ends in any process
        elif self.interrupted:
            warnings.warn("fit was interrupted, and without a ModelCheckpoint nothing is saved", stacklevel=3)
        self._tell("on_fit_end")
        self._write_asked_for()

    def _is_done(self) -> bool:
        enough = self.max_epochs is not None and self.current_epoch >= self.max_epochs
        if enough or self.interrupted or self._has_steps():
            return True
        if self._batch:  # an epoch that has begun is brought to its end
            return False
        self._stops, stopped = self._processes.any(self._interruption.asked, self.should_stop)
        return stopped or self.interrupted

    def _has_steps(self) -> bool:
        return self.max_steps is not None and self.global_step >= self.max_steps

    def _train_epoch(self) -> None:
        for batch in () if self._drained else self._batches():
            self._train_batch(batch)
            if self.interrupted or (self._has_steps() and self._batch != state.length(self._loader)):
                return  # an epoch whose last batch is the last step ends as any other
        if not self._drained:
            return
        if self._batch == 0:
            raise RuntimeError(
                f"epoch {self.current_epoch} has no batches: {type(self._loader).__name__} gave none. A "
                "generator can be gone through once; make it a list, or an object whose __iter__ begins anew"
            )
        if not self.interrupted:
            self._end_epoch()

    def _batches(self) -> Iterator[Any]:
        """Those of this epoch that are still to come."""
        loader = self._loader
        state.set_epoch(loader, self.current_epoch)
        batches = self._caught_up(loader)
        has_workers = self._checkpoint is not None and getattr(loader, "num_workers", None)
        while True:
            place = loader.state_dict() if has_workers else None
            try:
                batch = next(batches)
            except StopIteration:
                self._drained = True
                return
            except Exception:
                if not (has_workers and self.interrupted):
                    raise
                loader.load_state_dict(place)  # the signal has ended them, too: that batch was not given
                return
            yield batch

    def _caught_up(self, loader: Any) -> Iterator[Any]:
        """A pass over a loader that stands where the run does.

        What is gone through again draws again: from the generators as they were when the epoch began, while
        those who come after find them as they are now.
        """
        now = state.generators_state()
        if self._batch == 0:
            self._epoch_generators = now
            return self._begun(loader)
        state.set_generators(self._epoch_generators)
        batches = self._begun(loader)
        for _ in () if hasattr(loader, "state_dict") else islice(batches, self._batch):
            pass
        state.set_generators(now)
        return batches

    def _begun(self, loader: Any) -> Iterator[Any]:
        """A pass over a loader. Workers are not forked beside a thread that is writing."""
        if self._checkpoint is not None and getattr(loader, "num_workers", None):
            self._checkpoint.wait()
        return iter(loader)

    def _train_batch(self, batch: Any) -> None:
        first, self._accumulated = self._accumulated == 0, self._accumulated + 1
        last = self._accumulated >= self.options.accumulate_grad_batches
        outputs = self._steps.batch(batch, first, last)
        self._batch += 1
        asked, told = self._interruption.asked, scalars(outputs)
        self._stops, self._batch_metrics = self._processes.agreed(asked, told)
        self.callback_metrics.update(self._batch_metrics)
        self._training_metrics.update(self._batch_metrics)
        if last:
            self._count_update()
        self._tell("on_train_batch_end", outputs, batch, self._batch - 1)
        if self._checkpoint is not None:
            self._checkpoint.after_batch(self, last)
        self._write_asked_for()

    def _count_update(self) -> None:
        self._accumulated = 0
        self.global_step += 1
        if self.scaler.is_enabled():
            self.scaler.update()
        self._step_schedules("step")
        if self._batch_metrics and self.global_step % self.log_every_n_steps == 0:
            self._log(self._batch_metrics)

    def _end_epoch(self) -> None:
        if self._accumulated:
            self._steps.update()
            self._count_update()
        turn = (self.current_epoch + 1) % self.check_val_every_n_epoch == 0
        self._validates = self._validation_loader is not None and turn
        if self._validates and not self._validated():
            return
        self._step_schedules("epoch")
        self._tell("on_train_epoch_end")
        self.current_epoch, self._batch, self._drained = self.current_epoch + 1, 0, False
        if self._checkpoint is not None:
            self._checkpoint.after_epoch(self)
        self._write_asked_for()

    def _step_schedules(self, interval: str) -> None:
        look = self.metric_of_epoch if interval == "epoch" else partial(metric, self.callback_metrics)
        for one in self._schedules:
            if one.interval == interval:
                one.step(look)

    def metric_of_epoch(self, name: str, who: str) -> float | None:
        """That of the epoch which has ended, for ``who`` looks at it after each.

        None where it was to come from validation, and that is not done in each epoch: it would be an old one.
        Raises KeyError for a metric that is not there.
        """
        elsewhere = self._validation_loader is not None and not self._validates
        if elsewhere and name not in self._training_metrics:
            return None
        return metric(self.callback_metrics, name, who)

    # -- validation --------------------------------------------------------------------------------------

    def _validated(self) -> bool:
        """False where it was interrupted: then all is as it was before, and it is done again."""
        loader, before = self._validation_loader, state.generators_state()
        place = None if self._checkpoint is None else state.loader_state(loader)
        metrics: dict[str, float] = {}
        try:
            batches = takewhile(lambda _: not self.interrupted, self._begun(loader))
            metrics = self._mean_metrics(self._task, batches)
        except Exception:
            if not self.interrupted:  # else the signal has ended its workers, too
                raise
        if self.interrupted:
            state.load_loader(loader, place, 0)
            state.set_generators(before)
            return False
        self.callback_metrics.update(metrics)
        self._log(metrics)
        self._tell("on_validation_end")
        return True

    def _mean_metrics(self, task: Module, batches: Iterable[Any]) -> dict[str, float]:
        """Means over the samples of all batches."""
        means = Means()
        with state.modes_kept(task):
            task.eval()
            for batch in batches:
                means.add(self._evaluate(batch), batch)
        return means.result(self._processes)

    # -- others that are told ----------------------------------------------------------------------------

    def _tell(self, event: str, *arguments: Any) -> None:
        for one in self.callbacks:
            getattr(one, event)(self, self._task, *arguments)

    def _writing_loggers(self) -> Sequence[Logger]:
        return self.loggers if self.writes else ()

    def _log(self, metrics: dict[str, float]) -> None:
        for logger in self._writing_loggers():
            logger.log_metrics({"epoch": self.current_epoch, **metrics}, self.global_step)

    def _close(self) -> None:
        for logger in self.loggers:
            logger.close()
        if self._checkpoint is not None:
            self._checkpoint.wait()

    # -- state -------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All there is to a run between two batches, as plain data that shares the task's memory.

        Of several processes all ask for it at the same time, and that of the first is the whole.
        """
        return self._processes.state_dict(self._own_state())

    def _own_state(self) -> dict[str, Any]:
        return {
            "epoch": self.current_epoch,
            "global_step": self.global_step,
            "batch": self._batch,
            "drained": self._drained,
            "accumulated": self._accumulated,
            "should_stop": self._asked_to_stop,
            "metrics": self.callback_metrics,
            "batch_metrics": self._batch_metrics,
            "training_metrics": sorted(self._training_metrics),
            "hyper_parameters": self._hyper_parameters,
            **state.task_state(self._task),
            "gradients": state.gradients(self._task) if self._accumulated else {},
            "optimizer_states": [one.state_dict() for one in self._optimizers],
            "lr_schedulers": [one.scheduler.state_dict() for one in self._schedules],
            "scaler": self.scaler.state_dict(),
            "train_loader": state.loader_state(self._loader),
            "val_loader": state.loader_state(self._validation_loader),
            "callbacks": {one.state_key: one.state_dict() for one in self.callbacks},
            "loggers": [one.state_dict() for one in self.loggers],
            "epoch_generators": self._epoch_generators,
            "generators": state.generators_state(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back all of it but the generators of the program."""
        given = self._processes.own(state_dict)
        self.current_epoch, self.global_step = given["epoch"], given["global_step"]
        self._batch, self._drained = given["batch"], given["drained"]
        self._accumulated, self._asked_to_stop = given["accumulated"], given["should_stop"]
        self.callback_metrics, self._epoch_generators = given["metrics"], given["epoch_generators"]
        self._batch_metrics, self._training_metrics = given["batch_metrics"], set(given["training_metrics"])
        self._warn_of_changes(given["hyper_parameters"])
        state.load_task(self._task, given)
        state.load_gradients(self._task, given["gradients"])
        self._load_optimizers(given)
        self.scaler.load_state_dict(given["scaler"])
        state.load_loader(self._loader, given["train_loader"], self._batch)
        state.load_loader(self._validation_loader, given["val_loader"], 0)
        for one in self.callbacks:
            if one.state_key in given["callbacks"]:
                one.load_state_dict(given["callbacks"][one.state_key])
        for logger, kept in zip(self._writing_loggers(), given["loggers"], strict=False):
            logger.load_state_dict(kept)

    def _load_optimizers(self, given: dict[str, Any]) -> None:
        for kind, mine in (("optimizer_states", self._optimizers), ("lr_schedulers", self._schedules)):
            if len(given[kind]) != len(mine):
                raise ValueError(
                    f"the checkpoint has {len(given[kind])} {kind}, configure_optimizers() gives {len(mine)}"
                )
        for optimizer, kept in zip(self._optimizers, given["optimizer_states"], strict=True):
            optimizer.load_state_dict(kept)
            optimizer._opt_called = self.global_step > 0  # schedulers warn of one that never stepped
        for schedule, kept in zip(self._schedules, given["lr_schedulers"], strict=True):
            schedule.scheduler.load_state_dict(kept)

    def _warn_of_changes(self, before: dict[str, Any]) -> None:
        if text := state.changes(before, self._hyper_parameters):
            warnings.warn(
                f"the run was begun with other options: {text}. Optimizers go on with those of the "
                "checkpoint, the trainer with those it has now",
                stacklevel=4,
            )

    def _loaded(self, ckpt_path: str | os.PathLike | None) -> dict[str, Any] | None:
        if ckpt_path is None:
            return None
        if ckpt_path != "last":
            return files.read(Path(ckpt_path))
        if self._checkpoint is None:
            raise ValueError('fit(ckpt_path="last"): no ModelCheckpoint in callbacks says where')
        read: list[Any] = []  # the first process looks, the others read what it says

        def name(folder: Path = self._checkpoint.dirpath) -> str | None:
            read.extend(files.newest(folder) or ())
            return read[0].name if read else None

        found = self.from_first(name)
        return read[1] if read else found and files.read(self._checkpoint.dirpath / found)
