"""A Trainer in several processes: the numbers of one on the whole batch, decisions that all make alike."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np

import jtorch
import jtorch.distributed as dist
import jtorch.nn.functional as F
from jtorch import nn
from jtorch.training import Callback, EarlyStopping, JSONLogger, ModelCheckpoint, Trainer, seed_everything
from jtorch.utils.data import BatchSampler, DataLoader, DistributedSampler, TensorDataset

dist.init_process_group(timeout=20)
RANK, COUNT = dist.get_rank(), dist.get_world_size()
BATCH = 4  # of a process
ROWS = BATCH * COUNT * 5
GENERATOR = np.random.default_rng(0)
X = jtorch.from_numpy(GENERATOR.normal(size=(ROWS, 6)).astype(np.float32))
Y = jtorch.from_numpy(GENERATOR.integers(0, 3, ROWS))


class Task(nn.Module):
    def __init__(self, norm=False):
        super().__init__()
        inside = nn.BatchNorm1d(8) if norm else nn.Tanh()
        self.layers = nn.Sequential(nn.Linear(6, 8), inside, nn.Linear(8, 3))

    def training_step(self, batch):
        x, y = batch
        return F.cross_entropy(self.layers(x), y)

    def validation_step(self, batch):
        x, y = batch
        return {"val_loss": F.cross_entropy(self.layers(x), y), "own": float(RANK)}

    def configure_optimizers(self):
        optimizer = jtorch.optim.SGD(self.parameters(), lr=0.3, momentum=0.9)
        plateau = jtorch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plateau, "monitor": "loss"}}


def fitted(together, folder=None, loader=None, callbacks=(), norm=False, path=None, **options):
    seed_everything(0)
    task, data = Task(norm), TensorDataset(X, Y)
    loader = loader or loaded(data, together)
    if folder:
        callbacks = [*callbacks, ModelCheckpoint(folder / "checkpoints")]
        options["logger"] = JSONLogger(folder)
    options = {"max_epochs": 3, "enable_progress_bar": False, "log_every_n_steps": 1, **options}
    trainer = Trainer(distributed=together, callbacks=callbacks, **options)
    trainer.fit(task, loader, loaded(data, together), ckpt_path="last" if folder else path)
    return task, trainer


def loaded(data, together):
    if together:
        return DataLoader(data, BATCH, sampler=DistributedSampler(data, shuffle=False))
    return DataLoader(data, BATCH * COUNT)  # the same rows in each batch


def close(task, other):
    for (name, a), b in zip(task.named_parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


def check_numbers():
    """Those of one process, with what is left of an accumulation, clipped and compiled."""
    for options in (
        {}, {"compile": True}, {"accumulate_grad_batches": 3},
        {"accumulate_grad_batches": 2, "compile": True, "gradient_clip_val": 0.1},
    ):  # fmt: skip
        task, trainer = fitted(True, **options)
        alone, other = fitted(False, **options)
        close(task, alone)
        assert trainer.global_step == other.global_step
        assert np.isclose(trainer.callback_metrics["val_loss"], other.callback_metrics["val_loss"], rtol=1e-4)
        assert np.isclose(trainer.callback_metrics["loss"], other.callback_metrics["loss"], rtol=1e-4)
        assert np.isclose(trainer.callback_metrics["own"], (COUNT - 1) / 2)
        found = everyones([*task.state_dict().values()])
        for other in found:
            assert [t.numpy().tobytes() for t in other] == [t.numpy().tobytes() for t in found[0]]


class Stop(Callback):
    """Of one process: what it does after so many batches."""

    def __init__(self, what):
        self.left, self.what = 7, what

    def on_train_batch_end(self, trainer, *_):
        self.left -= 1
        if self.left == 0 and RANK == COUNT - 1:
            self.what(trainer)


def check_decisions():
    """One process's wish to stop is everyone's, and so is a signal."""

    def stop(trainer):
        trainer.should_stop = True

    folder = Path(shared(tempfile.mkdtemp))
    for epochs in (3, 6):  # and stays so when it is started again
        _, trainer = fitted(True, folder, callbacks=[Stop(stop)], max_epochs=epochs)
        assert trainer.current_epoch == 2
    folder = Path(shared(tempfile.mkdtemp))
    terminate = Stop(lambda _: os.kill(os.getpid(), signal.SIGTERM))
    _, trainer = fitted(True, folder, callbacks=[terminate])
    assert trainer.interrupted and trainer.global_step in (7, 8)
    dist.barrier()
    (path,) = sorted((folder / "checkpoints").iterdir())[-1:]
    state = jtorch.load(path)
    assert state["global_step"] == trainer.global_step and len(state["processes"]) == COUNT
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == trainer.global_step + 1  # one of a validation; one process writes
    _, trainer = fitted(True, max_epochs=30, callbacks=[EarlyStopping("own", patience=2)])
    assert trainer.current_epoch == 3
    folder = Path(shared(tempfile.mkdtemp))
    for epochs in (1, 3):
        best = ModelCheckpoint(folder, monitor="val_loss")
        fitted(True, callbacks=[best], max_epochs=epochs, path="last")
        for path in (best.best_model_path, best.last_model_path):
            assert [path] * COUNT == everyones(path) and Path(path).exists()


def check_metrics():
    """The means of those that all processes gave."""

    class Named(Task):
        def training_step(self, batch):
            return {"loss": super().training_step(batch), f"of {RANK}": 1.0, "rank": float(RANK)}

    trainer = Trainer(distributed=True, max_epochs=1, enable_progress_bar=False)
    trainer.fit(Named(), loaded(TensorDataset(X, Y), True))
    found = trainer.callback_metrics
    assert sorted(found) == ["loss", "rank"] and found["rank"] == (COUNT - 1) / 2


def check_goes_on():
    """Stopped after any batch, with buffers of each process's own: logs and state are as if it never was."""
    for compile in (False, True):
        options = {"norm": True, "accumulate_grad_batches": 3, "compile": compile}
        whole = Path(shared(tempfile.mkdtemp))
        fitted(True, whole, **options)
        for batches in (1, 2, 4, 8):
            folder = Path(shared(tempfile.mkdtemp))
            stop = Stop(lambda _: os.kill(os.getpid(), signal.SIGTERM))
            stop.left = batches
            _, trainer = fitted(True, folder, callbacks=[stop], **options)
            assert trainer.interrupted
            fitted(True, folder, **options)
            dist.barrier()
            a, b = ((f / "metrics.jsonl").read_text() for f in (whole, folder))
            assert a == b, f"{compile=}, {batches=}: {a}{b}"


def check_refused():
    data = TensorDataset(X, Y)
    refused(lambda: fitted(True, loader=DataLoader(data, BATCH)), "would train on all batches")
    refused(lambda: fitted(True, loader=[data[:4]] * (RANK + 1)), "batches an epoch, by rank")
    folder = Path(shared(tempfile.mkdtemp))
    fitted(True, folder, max_epochs=1)
    dist.barrier()
    path = sorted((folder / "checkpoints").iterdir())[-1]
    alone = Trainer(max_epochs=2, enable_progress_bar=False)
    new = lambda: fitted(True, callbacks=[ModelCheckpoint(folder / "checkpoints")])  # noqa: E731
    refused(new, "checkpoints of another run", (FileExistsError, RuntimeError))
    sampler = BatchSampler(DistributedSampler(data, shuffle=False), BATCH, drop_last=False)
    fitted(True, loader=DataLoader(data, batch_sampler=sampler))

    class ByClosure(Task):
        def configure_optimizers(self):
            return jtorch.optim.LBFGS(self.parameters())

    closed = Trainer(distributed=True, max_epochs=1, enable_progress_bar=False)
    refused(lambda: closed.fit(ByClosure(), loaded(data, True)), "LBFGS", NotImplementedError)
    sentence = f"a run of {COUNT} processes, and here"
    refused(lambda: alone.fit(Task(), loaded(data, False), ckpt_path=path), sentence)


def refused(function, sentence, kinds=ValueError):
    try:
        function()
    except kinds as error:
        assert sentence in str(error), error
    else:
        raise AssertionError(f"no error with {sentence!r}")


def everyones(thing):
    found = [None] * COUNT
    dist.all_gather_object(found, thing)
    return found


def shared(make):
    found = [make() if RANK == 0 else None]
    dist.broadcast_object_list(found)
    return found[0]


for name in sys.argv[1:] or ["numbers", "decisions", "metrics", "goes_on", "refused"]:
    globals()[f"check_{name}"]()
print("all is well", flush=True)
dist.destroy_process_group()
