"""``ModelCheckpoint``: when the state of a run is written, and which of its files stay."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtorch.training import files
from jtorch.training.callbacks import Callback, checked_mode, is_better
from jtorch.utils.files import sweep

if TYPE_CHECKING:
    from jtorch.training.trainer import Trainer


class ModelCheckpoint(Callback):
    """Writes all of a run's state into ``dirpath``, atomically, from which ``fit(ckpt_path="last")`` goes on.

    After each epoch, or each ``every_n_epochs`` of them and each ``every_n_train_steps`` updates; and when a
    fit ends, by Ctrl-C and SIGTERM, too. The last ``keep`` files stay, and with ``monitor`` the one of the
    epoch whose metric was best ("min" or "max"). ``asynchronous``: a thread writes a copy that was taken
    between two steps, one at a time; what goes wrong there is raised after the next step.

    Files hold plain data in PyTorch's format: ``jtorch.load(path)["state_dict"]`` are the task's tensors.
    Raises OSError as a fit begins where the folder can't be written.
    Source: https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.ModelCheckpoint.html
    """

    def __init__(
        self,
        dirpath: str | os.PathLike,
        *,
        every_n_train_steps: int | None = None,
        every_n_epochs: int | None = None,
        keep: int = 3,
        monitor: str | None = None,
        mode: str = "min",
        asynchronous: bool = True,
    ) -> None:
        if keep < 1:
            raise ValueError(f"ModelCheckpoint: keep is 1 or more, got {keep}")
        self.dirpath = Path(dirpath)
        self.every_n_train_steps = every_n_train_steps
        neither = every_n_train_steps is None and every_n_epochs is None
        self.every_n_epochs = 1 if neither else every_n_epochs
        self.keep, self.monitor, self.mode = keep, monitor, checked_mode(mode)
        self.asynchronous = asynchronous
        self.best_model_score: float | None = None
        self._best: str | None = None
        self._written_at: Any = None  # the position of the last one
        self._number = 0
        self._writer = files.Writer()

    @property
    def best_model_path(self) -> str:
        """Empty before there is one."""
        return "" if self._best is None else str(self.dirpath / self._best)

    @property
    def last_model_path(self) -> str:
        """The newest file; empty for none."""
        self._writer.wait()
        there = files.all_in(self.dirpath)
        return str(there[-1]) if there else ""

    def state_dict(self) -> dict[str, Any]:
        return {"best": self._best, "best_model_score": self.best_model_score}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._best, self.best_model_score = state_dict["best"], state_dict["best_model_score"]

    # -- when: called by the trainer, since each of these is a moment at which a run can be gone on with ---

    def begin(self, trainer: Trainer, resumed: bool) -> None:
        """Raises FileExistsError for a new run over another one's checkpoints."""
        trainer.state_dict()  # a loader whose order can't be had again says so now
        self._written_at = trainer.position if resumed else None
        self._number = trainer.from_first(lambda: self._prepare(resumed))

    def _prepare(self, resumed: bool) -> int:
        """The number of the newest file."""
        self.dirpath.mkdir(parents=True, exist_ok=True)
        there = files.all_in(self.dirpath)
        if there and not resumed:
            raise FileExistsError(
                f"{self.dirpath} has {len(there)} checkpoints of another run. To go on with it: "
                'fit(..., ckpt_path="last"); to begin anew: empty the folder, or give another dirpath'
            )
        files.check_writable(self.dirpath)
        sweep(self.dirpath)
        return max([files.number(path) for path in there], default=0)

    def after_batch(self, trainer: Trainer, updated: bool) -> None:
        self._writer.check()
        every = self.every_n_train_steps
        if every and updated and trainer.global_step % every == 0:
            self._save(trainer)

    def after_epoch(self, trainer: Trainer) -> None:
        """``trainer.current_epoch`` is the next one already: the file begins there."""
        best = self.monitor is not None and self._is_best(trainer)
        if best or (self.every_n_epochs and trainer.current_epoch % self.every_n_epochs == 0):
            self._save(trainer, best)

    def at_end(self, trainer: Trainer) -> None:
        if trainer.position != self._written_at:
            self._save(trainer)
        self._writer.wait()

    def wait(self) -> None:
        """Until nothing is being written."""
        self._writer.wait()

    # -- how ---------------------------------------------------------------------------------------------

    def _is_best(self, trainer: Trainer) -> bool:
        score = trainer.metric_of_epoch(self.monitor or "", "ModelCheckpoint")
        if score is None:
            return False
        if self.best_model_score is not None and not is_better(score, self.best_model_score, self.mode):
            return False
        self.best_model_score = score
        return True

    def _save(self, trainer: Trainer, best: bool = False) -> None:
        self._writer.wait()  # before the copy: there is one pending at most
        self._number += 1
        place = f"epoch={trainer.current_epoch}-step={trainer.global_step}"
        path = self.dirpath / f"{self._number:05d}-{place}.ckpt"
        if best:
            self._best = path.name
        content, kept = trainer.state_dict(), [self._best]
        self._written_at = trainer.position
        if not trainer.writes:
            return
        state = copy.deepcopy(content)

        def write() -> None:
            files.write(state, path)
            files.remove(self.dirpath, self.keep, kept)

        self._writer.start(write)
        if not self.asynchronous:
            self._writer.wait()
