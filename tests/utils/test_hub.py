"""Files behind addresses: fetched once, checked, loaded."""

from __future__ import annotations

import hashlib

import pytest

import jtorch
from jtorch import hub
from jtorch.core.errors import DataError
from jtorch.utils import model_zoo


@pytest.fixture
def published(tmp_path):
    """A file of weights, with its hash in its name, and the folder for downloads."""
    path = tmp_path / "weights.pth"
    jtorch.save({"w": jtorch.arange(3.0)}, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return path.rename(tmp_path / f"net-{digest[:8]}.pth"), tmp_path / "downloads"


def test_weights_are_fetched_once(published):
    source, folder = published
    for _ in range(2):  # the second time there is nothing left to fetch
        found = hub.load_state_dict_from_url(source.as_uri(), str(folder), check_hash=True)
        assert found["w"].tolist() == [0.0, 1.0, 2.0]
        source.unlink(missing_ok=True)
    assert [p.name for p in folder.iterdir()] == [source.name]
    assert model_zoo.load_url(source.as_uri(), str(folder))["w"].numel() == 3


def test_another_file_is_refused_and_not_kept(published):
    source, folder = published
    wrong = source.rename(source.with_name("net-00000000.pth"))
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.load_state_dict_from_url(wrong.as_uri(), str(folder), check_hash=True)
    with pytest.raises(DataError, match=r"gone\.pth"):
        hub.load_state_dict_from_url(wrong.with_name("gone.pth").as_uri(), str(folder))
    assert not folder.exists()


def test_downloads_go_to_the_folder_that_was_set(published, monkeypatch):
    source, folder = published
    monkeypatch.setattr(hub, "_chosen", [None])
    monkeypatch.setenv("TORCH_HOME", str(folder / "home"))
    assert hub.get_dir() == str(folder / "home" / "hub")
    hub.set_dir(folder)
    hub.load_state_dict_from_url(source.as_uri(), file_name="mine.pth")
    assert (folder / "checkpoints" / "mine.pth").exists()


def test_code_is_not_downloaded():
    for function in (hub.load, hub.list, hub.help):
        with pytest.raises(NotImplementedError, match="downloads no code"):
            function("pytorch/vision", "resnet18")
