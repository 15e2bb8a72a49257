"""Lines of metrics: one each, columns that come later, and the cut that a checkpoint asks for."""

from __future__ import annotations

import csv
import json
import math

import pytest

from jtorch.training import CSVLogger, JSONLogger


def lines(logger):
    return logger.path.read_text().splitlines()


def test_json_lines(tmp_path):
    logger = JSONLogger(tmp_path / "logs")
    logger.begin()
    logger.log_metrics({"loss": 0.1 + 0.2}, 3)
    logger.log_metrics({"loss": math.inf, "top": 1.0}, 4)
    found = [json.loads(line) for line in lines(logger)]
    assert found == [{"step": 3, "loss": 0.1 + 0.2}, {"step": 4, "loss": math.inf, "top": 1.0}]
    logger.begin()
    assert lines(logger) == []


def test_csv_with_columns_that_come_later(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.begin()
    logger.log_metrics({"loss": 0.5}, 1)
    logger.log_metrics({"val, mean": 1e-20}, 1)
    logger.log_metrics({"loss": 0.25, "val, mean": 2.0}, 2)
    assert lines(logger) == ['step,loss,"val, mean"', "1,0.5,", "1,,1e-20", "2,0.25,2.0"]
    logger.close()
    rows = list(csv.DictReader(lines(logger)))
    assert rows[1] == {"step": "1", "loss": "", "val, mean": "1e-20"}


@pytest.mark.parametrize("kind", [CSVLogger, JSONLogger])
def test_what_came_after_the_checkpoint_is_cut_off(kind, tmp_path):
    logger = kind(tmp_path)
    logger.begin()
    for step in range(3):
        logger.log_metrics({"loss": step / 3}, step)
    state, before = logger.state_dict(), logger.path.read_text()
    logger.log_metrics({"loss": 1.0, "later": 2.0}, 3)
    logger.close()
    with logger.path.open("a") as file:
        file.write('4,0.1,"half of a li')
    again = kind(tmp_path)
    again.load_state_dict(state)
    assert again.path.read_text() == before and again.state_dict() == state
    again.log_metrics({"loss": 1.0}, 3)
    again.close()
    assert len(lines(again)) == len(before.splitlines()) + 1


@pytest.mark.parametrize("kind", [CSVLogger, JSONLogger])
def test_lines_that_are_gone_are_told_of(kind, tmp_path):
    logger = kind(tmp_path)
    logger.begin()
    logger.log_metrics({"loss": 1.0}, 1)
    state = logger.state_dict()
    logger.close()
    logger.path.unlink()
    again = kind(tmp_path)
    with pytest.warns(UserWarning, match=rf"has 0 of the {state['lines']} lines"):
        again.load_state_dict(state)
    again.log_metrics({"loss": 2.0}, 2)
    again.close()
    assert lines(again)[-1].count("2.0") == 1
