"""Weights that lie behind an address: ``torch.hub``'s downloads of files. Code is not downloaded.

Source: https://docs.pytorch.org/docs/stable/hub.html
"""

from __future__ import annotations

import hashlib
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, NoReturn

from jtorch.core.errors import DataError
from jtorch.serialization import load as _load
from jtorch.utils.files import write_atomically

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

_HASH = re.compile(r"-([a-f0-9]*)\.")  # resnet18-bfd8deac.pth
_chosen: Any = [None]  # what set_dir was told


def get_dir() -> str:
    """The folder of downloads: that of ``set_dir``, $TORCH_HOME/hub, or ~/.cache/torch/hub."""
    if _chosen[0] is not None:
        return _chosen[0]
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"))
    home = Path(os.environ.get("TORCH_HOME", cache / "torch"))
    return str(home.expanduser() / "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Let downloads go to the folder ``d``."""
    _chosen[0] = str(Path(d).expanduser())


def download_url_to_file(url: str, dst: Any, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Write what is at ``url`` to the file ``dst``: all of it, or nothing. ``progress`` shows nothing here.

    Raises RuntimeError where its SHA-256 does not begin with ``hash_prefix``, DataError where nothing comes.
    """
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            content = answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise DataError(f"download_url_to_file: {url}: {error}") from None
    found = hashlib.sha256(content).hexdigest()
    if hash_prefix and not found.startswith(hash_prefix):
        raise RuntimeError(
            f'invalid hash value (expected "{hash_prefix}", got "{found[: len(hash_prefix)]}")'
        )
    path = Path(dst)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """``jtorch.load`` of the file at ``url``, fetched once, to ``model_dir`` or ``get_dir()``/checkpoints.

    With ``check_hash`` the name of the file says how its SHA-256 begins, "net-2fd4e1c6.pth". Whole objects
    are refused unless ``weights_only`` is False. Raises RuntimeError for another file, DataError where there
    is none.
    """
    folder = Path(model_dir) if model_dir is not None else Path(get_dir()) / "checkpoints"
    name = file_name or Path(urllib.parse.urlparse(url).path).name
    path = folder / name
    if not path.exists():
        said = _HASH.search(name) if check_hash else None
        download_url_to_file(url, path, said.group(1) if said else None, progress)
    return _load(path, map_location=map_location, weights_only=weights_only)


def _of_code(name: str) -> Any:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"torch.hub.{name}: jtorch downloads no code. Get the repository, import its model, and load the "
            "weights with torch.hub.load_state_dict_from_url"
        )

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Raises NotImplementedError: no code is downloaded."
    return refused


load, list, help = map(_of_code, ("load", "list", "help"))
