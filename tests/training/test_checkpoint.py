"""ModelCheckpoint's files: whole or not there, found again, kept as long as wanted; errors of its thread."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import jtorch
from jtorch import nn
from jtorch.errors import DataError
from jtorch.training import Callback, JSONLogger, ModelCheckpoint, Trainer, files
from jtorch.utils.files import sweep, write_atomically

DATA = [jtorch.full((2, 3), float(k)) for k in range(4)]


class Task(nn.Module):
    """Its loss is what ``losses`` says, epoch by epoch."""

    def __init__(self, losses=(0.0,)):
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.losses = list(losses)

    def training_step(self, batch):
        return self.layer(batch).square().mean()

    def validation_step(self, batch):
        return {"score": self.losses.pop(0)}

    def configure_optimizers(self):
        return jtorch.optim.SGD(self.parameters(), lr=0.01)


def fit(folder, task=None, ckpt_path=None, validation=None, callbacks=(), **options):
    checkpoint = ModelCheckpoint(folder, **options.pop("checkpoint", {}))
    options = {"max_epochs": 3, "enable_progress_bar": False, **options}
    trainer = Trainer(callbacks=[*callbacks, checkpoint], **options)
    trainer.fit(task or Task(), DATA, validation, ckpt_path=ckpt_path)
    return checkpoint, trainer


def steps(folder):
    return [int(path.stem.rpartition("=")[2]) for path in files.all_in(Path(folder))]


# -- which files there are -----------------------------------------------------------------------------------


def test_the_last_ones_are_kept(tmp_path):
    fit(tmp_path, max_steps=11, checkpoint={"every_n_train_steps": 2, "keep": 2})
    assert steps(tmp_path) == [10, 11]  # and the end
    fit(tmp_path / "epochs", max_epochs=5, checkpoint={"every_n_epochs": 2, "keep": 9})
    assert steps(tmp_path / "epochs") == [8, 16, 20]


@pytest.mark.parametrize(("mode", "best"), [("min", 8), ("max", 16)])
def test_the_best_one_is_kept_beside_them(mode, best, tmp_path):
    scores = [3.0, 1.0, 2.0, 4.0, float("nan"), 2.0]
    options = {"monitor": "score", "mode": mode, "keep": 1}
    task = Task(scores)
    checkpoint, trainer = fit(tmp_path, task, validation=DATA[:1], max_epochs=6, checkpoint=options)
    assert steps(tmp_path) == [best, 24]
    assert checkpoint.best_model_score == {"min": 1.0, "max": 4.0}[mode]
    assert jtorch.load(checkpoint.best_model_path)["global_step"] == best
    again = ModelCheckpoint(tmp_path, **options)
    again.load_state_dict(checkpoint.state_dict())
    assert again.best_model_path == checkpoint.best_model_path and trainer.callback_metrics["score"] == 2.0


def test_the_best_one_is_known_after_a_resumption(tmp_path):
    options = {"monitor": "score", "keep": 1}
    fit(tmp_path, Task([1.0, 2.0]), validation=DATA[:1], max_epochs=2, checkpoint=options)
    fit(tmp_path, Task([3.0, 1.5]), "last", DATA[:1], max_epochs=4, checkpoint=options)
    assert steps(tmp_path) == [4, 16]


def test_a_new_run_does_not_write_over_another_one(tmp_path):
    fit(tmp_path)
    with pytest.raises(FileExistsError, match=r'3 checkpoints of another run.*ckpt_path="last"'):
        fit(tmp_path)


def test_after_going_on_from_an_older_one_the_newest_is_that_runs(tmp_path):
    fit(tmp_path, checkpoint={"keep": 9})
    fit(tmp_path, ckpt_path=files.all_in(tmp_path)[0], max_steps=6, max_epochs=9)
    assert steps(tmp_path)[-1] == 6
    _, trainer = fit(tmp_path, ckpt_path="last", max_steps=7, max_epochs=9)
    assert trainer.global_step == 7 and steps(tmp_path)[-1] == 7


def test_a_run_that_is_at_its_end_writes_nothing(tmp_path):
    fit(tmp_path)
    before = [(path, path.stat().st_mtime_ns) for path in files.all_in(tmp_path)]
    _, trainer = fit(tmp_path, ckpt_path="last")
    assert trainer.current_epoch == 3
    assert [(path, path.stat().st_mtime_ns) for path in files.all_in(tmp_path)] == before


# -- what is in them -----------------------------------------------------------------------------------------


def test_the_state_dict_of_the_task_is_there_for_others(tmp_path):
    task = Task()
    checkpoint, _ = fit(tmp_path, task)
    found = jtorch.load(checkpoint.last_model_path)["state_dict"]
    assert jtorch.equal(found["layer.weight"], task.layer.weight) and set(found) == set(task.state_dict())


class Unplain(Callback):
    def state_dict(self):
        return {"when": object()}


def test_what_would_have_to_be_unpickled_is_not_written(tmp_path):
    with pytest.raises(TypeError, match=r"obj\['callbacks'\]\['Unplain'\]\['when'\]: object can't be saved"):
        fit(tmp_path, callbacks=[Unplain()])
    assert files.all_in(tmp_path) == []


def test_a_pickle_is_not_read(tmp_path):
    path = tmp_path / "00001-epoch=1-step=4.ckpt"
    jtorch.save({"global_step": 1, "what": Unplain()}, path, format="torch")
    with pytest.raises(DataError, match="Unplain"):
        files.read(path)


# -- broken ones ---------------------------------------------------------------------------------------------


def half(content):
    return content[: len(content) // 2]


def flipped(content):
    """One bit of the last tensor, of whose record nothing else depends."""
    place = content.rindex(b"archive/version") - 300
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize(
    "broken", [half, flipped, lambda content: b"", lambda content: b"\0" * len(content)],
    ids=["half", "a bit", "empty", "zeros"],
)  # fmt: skip
def test_a_broken_one_is_passed_over(broken, tmp_path):
    fit(tmp_path)
    newest = files.all_in(tmp_path)[-1]
    newest.write_bytes(broken(newest.read_bytes()))
    with pytest.warns(UserWarning, match=f"passed over, for it can't be read: .*{newest.name}"):
        path, state = files.newest(tmp_path)
    assert path == files.all_in(tmp_path)[-2] and state["global_step"] == 8
    with pytest.warns(UserWarning, match="passed over"):
        _, trainer = fit(tmp_path, ckpt_path="last")
    assert trainer.global_step == 12
    with pytest.raises(DataError):
        fit(tmp_path / "b", ckpt_path=newest)


def test_nothing_but_broken_ones_is_an_error(tmp_path):
    fit(tmp_path)
    for path in files.all_in(tmp_path):
        path.write_bytes(b"")
    with pytest.warns(UserWarning), pytest.raises(DataError, match="none of 3 checkpoints can be read"):
        fit(tmp_path, ckpt_path="last")


def test_another_kind_of_file_is_told_apart(tmp_path):
    jtorch.save({"weight": jtorch.ones(2)}, tmp_path / "weights.pt")
    with pytest.raises(DataError, match="no checkpoint of a Trainer"):
        fit(tmp_path / "run", ckpt_path=tmp_path / "weights.pt")
    with pytest.raises(FileNotFoundError):
        fit(tmp_path / "run", ckpt_path=tmp_path / "absent.ckpt")


KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
import jtorch.utils.files as files
from tests.training.test_checkpoint import fit

at, folder = sys.argv[1:]
def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
if at == "fsync":
    files.os.fsync = kill
elif at == "rename":
    Path.replace = kill
else:
    files._sync_folder = kill
fit(folder, ckpt_path="last", checkpoint={"every_n_train_steps": 1, "asynchronous": at != "rename"})
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", ["fsync", "rename", "folder"])
def test_killed_while_one_is_written(at, tmp_path):
    root = Path(__file__).parents[2]
    fit(tmp_path, max_steps=3)
    command = [sys.executable, "-c", KILLED_WHILE_WRITING, at, str(tmp_path)]
    done = subprocess.run(command, cwd=root, timeout=60)
    assert done.returncode == -signal.SIGKILL
    left = list(tmp_path.glob(".*.tmp"))
    assert len(left) == (at != "folder") and steps(tmp_path) == ([3] if left else [3, 4])
    _, trainer = fit(tmp_path, ckpt_path="last")
    assert trainer.global_step == 12
    assert list(tmp_path.glob(".*.tmp")) == []


def test_what_is_being_written_is_not_swept(tmp_path):
    write_atomically(tmp_path / "whole", b"x")
    left = tmp_path / (".jtorch-" + "0" * 16 + ".0-1.tmp")
    other = tmp_path / ".jtorch-mine.tmp"
    left.touch(), other.touch()
    sweep(tmp_path)
    assert left.exists() and other.exists()  # another machine's, and no temporary file of a write
    os.utime(left, (0, 0))
    sweep(tmp_path)
    assert not left.exists() and other.exists() and (tmp_path / "whole").read_bytes() == b"x"
    sweep(tmp_path / "absent")


# -- the thread ----------------------------------------------------------------------------------------------


def test_an_error_of_the_thread_is_raised_after_the_next_step(tmp_path, monkeypatch):
    started = []

    def full(state, path):
        started.append(path)
        raise OSError(28, "No space left on device")

    class Wait(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if started:
                trainer._checkpoint._writer._thread.join()

    monkeypatch.setattr(files, "write", full)
    with pytest.raises(OSError, match="No space left") as caught:
        fit(tmp_path, callbacks=[Wait()], checkpoint={"every_n_train_steps": 2})
    assert len(started) == 1 and started[0].name.endswith("step=2.ckpt")
    assert caught.value.__notes__ == ["raised by the thread that writes checkpoints"]


def test_an_error_beside_one_of_the_task_is_told_of_too(tmp_path, monkeypatch):
    class Fails(Task):
        def training_step(self, batch):
            if batch[0, 0] == 1:
                raise ArithmeticError("the task's")
            return super().training_step(batch)

    def full(state, path):
        raise OSError("the disk's")

    monkeypatch.setattr(files, "write", full)
    with pytest.raises(OSError, match="the disk's") as caught:
        fit(tmp_path, Fails(), checkpoint={"every_n_train_steps": 1})
    assert repr(caught.value.__context__) == repr(ArithmeticError("the task's"))


def test_an_error_of_the_last_one_is_raised_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "to_bytes", lambda state: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fit(tmp_path, max_epochs=1)


def test_one_is_pending_at_most_and_is_a_copy(tmp_path, monkeypatch):
    most, written, lock = [], [], threading.Semaphore(1)
    really = files.write

    def slow(state, path):
        most.append(lock.acquire(blocking=False))
        threading.Event().wait(0.02)
        written.append(state["state_dict"]["layer.weight"].tolist())
        really(state, path)
        lock.release()

    seen = []

    class Watch(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            seen.append(pl_module.layer.weight.tolist())

    monkeypatch.setattr(files, "write", slow)
    fit(tmp_path, max_epochs=1, callbacks=[Watch()], checkpoint={"every_n_train_steps": 1})
    assert all(most) and written[:4] == seen and len(written) == 5


def test_a_folder_that_cannot_be_written_is_known_at_once(tmp_path):
    (tmp_path / "file").touch()
    task = Task()
    before = task.layer.weight.tolist()
    with pytest.raises(OSError):
        fit(tmp_path / "file" / "checkpoints", task)
    assert task.layer.weight.tolist() == before


def test_logs_are_on_disk_before_the_checkpoint_that_counts_them(tmp_path, monkeypatch):
    synced = []
    really = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(os.fstat(handle).st_ino), really(handle)))
    logger = JSONLogger(tmp_path)
    fit(tmp_path / "c", max_epochs=1, logger=logger, log_every_n_steps=1)
    first = files.all_in(tmp_path / "c")[0]
    assert synced.index(logger.path.stat().st_ino) < synced.index(first.stat().st_ino)


@pytest.mark.parametrize("options", [{"keep": 0}, {"mode": "best"}])
def test_options_that_make_no_sense(options, tmp_path):
    with pytest.raises(ValueError):
        ModelCheckpoint(tmp_path, **options)


@pytest.mark.slow
def test_pytorch_reads_it(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: nothing else reads the file")
    task = Task()
    checkpoint, _ = fit(tmp_path, task)
    found = torch.load(checkpoint.last_model_path, weights_only=True)
    assert found["state_dict"]["layer.weight"].tolist() == task.layer.weight.tolist()
