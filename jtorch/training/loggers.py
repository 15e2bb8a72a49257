"""Loggers: metrics as lines of a file, none twice and none lost when a run is gone on with.

Source: https://lightning.ai/docs/pytorch/stable/extensions/logging.html
"""

from __future__ import annotations

import csv
import io
import json
import os
import warnings
from pathlib import Path
from typing import IO, Any

from jtorch.utils.files import write_atomically


class Logger:
    """Base class: a file in ``save_dir`` that begins anew with a run, and grows by a line at a time.

    A checkpoint has the number of lines: going on from it cuts off those that came later.
    """

    name = ""

    def __init__(self, save_dir: str | os.PathLike) -> None:
        self.path = Path(save_dir) / self.name
        self._lines = 0
        self._file: IO[str] | None = None

    def begin(self) -> None:
        """Of a new run."""
        self._write_anew([])

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        """One line."""
        self._append(self._line({"step": step, **metrics}))

    def _line(self, values: dict[str, float]) -> str:
        raise NotImplementedError

    def _append(self, line: str) -> None:
        if self._file is None:
            self._file = self.path.open("a", newline="")
        self._file.write(line)
        self._file.flush()  # a process that is killed has written it
        self._lines += 1

    def _write_anew(self, lines: list[str]) -> None:
        self.close()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, "".join(lines).encode())
        self._lines = len(lines)

    def _read(self) -> list[str]:
        """The whole lines that are there; what a killed process left of one is none."""
        if not self.path.exists():
            return []
        with self.path.open(newline="") as file:
            return [line for line in file if line.endswith("\n")]

    def state_dict(self) -> dict[str, Any]:
        """All lines are on disk by then."""
        if self._file is not None:
            os.fsync(self._file.fileno())
        return {"lines": self._lines}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Cut the file to what it was. Warns where less is left."""
        kept = self._read()[: state_dict["lines"]]
        if len(kept) < state_dict["lines"]:
            warnings.warn(
                f"{self.path} has {len(kept)} of the {state_dict['lines']} lines that the checkpoint counts",
                stacklevel=2,
            )
        self._write_anew(kept)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class JSONLogger(Logger):
    """A JSON object a line in ``save_dir/metrics.jsonl``: ``{"step": 3, "epoch": 0, "loss": 0.5}``."""

    name = "metrics.jsonl"

    def _line(self, values: dict[str, float]) -> str:
        return json.dumps(values) + "\n"


class CSVLogger(Logger):
    """``save_dir/metrics.csv``: a column for each metric, empty where a line hasn't got it.

    A metric that comes up later gets its column then: the file is written anew once.
    """

    name = "metrics.csv"

    def __init__(self, save_dir: str | os.PathLike) -> None:
        super().__init__(save_dir)
        self._columns: list[str] = []

    def begin(self) -> None:
        self._columns = []
        super().begin()

    def _line(self, values: dict[str, float]) -> str:
        if new := [name for name in values if name not in self._columns]:
            rows = self._rows()
            self._columns += new
            self._write_rows(rows)
        return _row([values.get(name, "") for name in self._columns])

    def _rows(self) -> list[dict[str, str]]:
        return list(csv.DictReader(self._read()))

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "columns": list(self._columns)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        rows, self._columns = self._rows(), list(state_dict["columns"])
        self._write_rows(rows)

    def _write_rows(self, rows: list[dict[str, str]]) -> None:
        header = [_row(self._columns)] if self._columns else []
        self._write_anew([*header, *(_row([row.get(c, "") for c in self._columns]) for row in rows)])


def _row(values: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()
