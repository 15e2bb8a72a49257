"""Tasks and runs that the tests of the trainer share; the killed ones are started from here, too."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import jtorch
import jtorch.nn.functional as F
from jtorch import nn
from jtorch.training import (
    Callback,
    CSVLogger,
    EarlyStopping,
    JSONLogger,
    ModelCheckpoint,
    Trainer,
    seed_everything,
)
from jtorch.utils.data import DataLoader, Dataset, DistributedSampler

WIDTH, CLASSES, ITEMS = 6, 3, 22


class Noisy(Dataset):
    """Rows with noise from each generator of the program."""

    def __init__(self, pause=0.0):
        self.pause = pause

    def __len__(self):
        return ITEMS

    def __getitem__(self, k):
        time.sleep(self.pause)
        x = jtorch.linspace(-1, 1, WIDTH) * (k + 1) + jtorch.rand(WIDTH)
        return {"x": x + random.random() + float(np.random.rand()), "y": k % CLASSES}


class Classifier(nn.Module):
    """Everything that has a state: dropout, a norm, a buffer no state dict has, two schedules."""

    def __init__(self, half=False):
        super().__init__()
        self.half = half
        self.layers = nn.Sequential(
            nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, CLASSES)
        )
        self.register_buffer("seen", jtorch.zeros(1), persistent=False)

    def forward(self, x):
        if self.half:  # products in float16, as mixed precision has them, parameters in float32
            return self.layers(x.half().float())
        return self.layers(x)

    def training_step(self, batch):
        scores = self(batch["x"])
        with jtorch.no_grad():
            self.seen.add_(len(batch["x"]))
        return {"loss": F.cross_entropy(scores, batch["y"]) + 0 * self.seen.sum(), "top": scores.max()}

    def validation_step(self, batch):
        return F.cross_entropy(self(batch["x"]), batch["y"])

    def configure_optimizers(self):
        optimizer = jtorch.optim.Adam(self.parameters(), lr=0.05)
        return [optimizer], [
            {"scheduler": jtorch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97), "interval": "step"},
            {
                "scheduler": jtorch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0),
                "monitor": "val_loss",
            },
        ]


def _terminated(value):
    os.kill(os.getpid(), signal.SIGTERM)
    return value


class StopAfter(Callback):
    """SIGTERM after so many batches of this process."""

    def __init__(self, batches):
        self.left = batches

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGTERM)


@dataclass(frozen=True)
class Run:
    """How a run is made; ``folder`` is where its files are."""

    folder: str
    compile: bool = False
    workers: int = 0
    accumulate: int = 2
    mixed: bool = False
    own_generator: bool = False
    epochs: int = 2
    every: int = 1
    patience: int = 8
    pause: float = 0.0  # seconds that an item takes
    distributed: bool = False

    def go(self, stop_after=0, seed=0, stop_in_validation=False):
        """From the beginning or the newest checkpoint; gives the trainer."""
        seed_everything(seed)
        task = Classifier(self.mixed)
        if stop_in_validation:
            task.validation_step = lambda batch: _terminated(Classifier.validation_step(task, batch))
        trainer = self._trainer([StopAfter(stop_after)] if stop_after else [])
        loader = self._loader(shuffle=True, workers=self.workers)
        trainer.fit(task, loader, self._loader(shuffle=True), ckpt_path="last")
        return trainer

    def _loader(self, shuffle, workers=0):
        generator = jtorch.Generator().manual_seed(3) if self.own_generator else None
        data = Noisy(self.pause)
        if self.distributed:
            return DataLoader(data, 4, sampler=DistributedSampler(data, shuffle=shuffle), num_workers=workers)
        return DataLoader(data, 4, shuffle=shuffle, num_workers=workers, generator=generator)

    def _trainer(self, callbacks):
        scaler = jtorch.amp.GradScaler("cpu", init_scale=2.0**120, growth_interval=3) if self.mixed else None
        return Trainer(
            max_epochs=self.epochs, compile=self.compile, accumulate_grad_batches=self.accumulate,
            distributed=self.distributed,
            gradient_clip_val=0.5, scaler=scaler, log_every_n_steps=1, enable_progress_bar=False,
            logger=[CSVLogger(self.folder), JSONLogger(self.folder)],
            callbacks=[
                *callbacks,
                EarlyStopping("val_loss", patience=self.patience),
                ModelCheckpoint(
                    f"{self.folder}/checkpoints", every_n_train_steps=self.every, monitor="val_loss"
                ),
            ],
        )  # fmt: skip

    def in_folder(self, folder):
        return replace(self, folder=str(folder))


def result(folder):
    """The last checkpoint and the logs: all that two runs can differ in."""
    path = sorted((Path(folder) / "checkpoints").glob("*.ckpt"))[-1]
    logs = [(Path(folder) / name).read_text() for name in ("metrics.csv", "metrics.jsonl")]
    return jtorch.load(path), logs


def differences(a, b, where=""):
    """The places where two states differ in a bit."""
    if isinstance(a, jtorch.Tensor) and isinstance(b, jtorch.Tensor):
        same = a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
        return [] if same else [where]
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return [d for k in a for d in differences(a[k], b[k], f"{where}.{k}")]
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        return [d for k in range(len(a)) for d in differences(a[k], b[k], f"{where}[{k}]")]
    return [] if repr(a) == repr(b) else [f"{where}: {a!r} and {b!r}"]


def assert_same(folder, other):
    (state, logs), (other_state, other_logs) = result(folder), result(other)
    for one in (state, other_state):
        for part in (one, *one.get("processes", ())):
            part["callbacks"].pop("StopAfter", None)
            part["callbacks"]["ModelCheckpoint"].pop("best")  # names of files count those that were written
    found = differences(state, other_state)
    assert not found, found
    assert logs == other_logs


def go_together(run):
    """One of several processes, which tells its number in a file: who kills it must know."""
    here = Path(run.folder) / f"process-{os.environ['RANK']}"
    here.parent.mkdir(parents=True, exist_ok=True)
    here.write_text(str(os.getpid()))
    seed = 100 * int(os.environ["RANK"])  # each draws its own noise
    run.go(seed=seed)


if __name__ == "__main__":
    asked = Run(**json.loads(sys.argv[1]))
    if asked.distributed:
        go_together(asked)
    else:
        asked.go()
