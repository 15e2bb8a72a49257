"""What a function prints, logs and writes where no replay can do it: said once for each line, or an error.
What replays do is in ``test_output_effects.py``."""

import codecs
import csv
import dis
import io
import json
import logging
import pickle
import pprint
import sys
import traceback
import warnings

import pytest

import jtorch
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import t

TEXT, BYTES = io.StringIO(), io.BytesIO()
LOG = logging.Logger("output")
LOG.setLevel(logging.INFO)
LOG.addHandler(logging.StreamHandler(TEXT))
ROWS, NAMED_ROWS = csv.writer(TEXT), csv.DictWriter(TEXT, ["a"])
CODED = codecs.StreamReaderWriter(BYTES, codecs.getreader("utf-8"), codecs.getwriter("utf-8"))

TELLING = {
    "print of an object": lambda x: print(t),
    "map(print)": lambda x: [*map(print, "ab")],
    "log.exception": lambda x: LOG.exception("hi"),
    "map(log.info)": lambda x: [*map(LOG.info, "ab")],
    "adapter": lambda x: logging.LoggerAdapter(LOG, {"a": 1}).info("hi"),
    "handle": lambda x: LOG.handlers[0].handle(LOG.makeRecord("n", 20, "f", 1, "hi", (), None)),
    "warn": lambda x: warnings.warn("careful", stacklevel=1),
    "map(write)": lambda x: [*map(TEXT.write, "ab")],
    "csv, its file": lambda x: csv.writer(TEXT).writerow([1, 2]),
    "csv, its writer": lambda x: ROWS.writerow([1, 2]),
    "csv, many": lambda x: ROWS.writerows([[1], [2]]),
    "DictWriter": lambda x: NAMED_ROWS.writerow({"a": 1}),
    "DictWriter, its file": lambda x: csv.DictWriter(TEXT, ["a"]).writerow({"a": 1}),
    "codecs": lambda x: CODED.write("hi"),
    "json": lambda x: json.dump({"a": 1}, TEXT),
    "pickle": lambda x: pickle.dump(1, BYTES),
    "print_stack": lambda x: traceback.print_stack(),
    "print_exc": lambda x: traceback.print_exc(file=TEXT),
    "pprint": lambda x: pprint.pprint([1]),
    "pp": lambda x: pprint.pp([1], stream=TEXT),
    "displayhook": lambda x: sys.displayhook(None),
    "dis": lambda x: dis.dis(t),
}


def _told(call, calls=3):
    """What ``call``, compiled, is said to do: the warnings of several calls."""

    def f(x):
        call(x)
        return x * 2

    f = jtorch.compile(f)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for k in range(calls):
            assert f(t(k)).tolist() == [2.0 * k]
    return [w for w in found if "when the function is recorded, not at each call" in str(w.message)]


@pytest.mark.usefixtures("capsys")
def test_output_is_warned_of_once_with_its_line():
    for name, call in TELLING.items():
        told = _told(call)
        lines = [w.lineno for w in told if w.filename == __file__]
        assert lines == [call.__code__.co_firstlineno], name
        assert not _told(call), name  # of the same line


def test_what_is_no_output_is_not_warned_of():
    class Tee:
        def __init__(self):
            self.lines = []

        def write(self, text):
            self.lines.append(text)

    def to_its_own(x):
        stream = io.StringIO()
        print("hi", file=stream)
        stream.write("more")
        csv.writer(stream).writerow([1])
        json.dump([1], stream)
        assert stream.getvalue() == "hi\nmore1\r\n[1]"

    tee = Tee()
    silent = {
        "its own stream": to_its_own,
        "below the level": lambda x: LOG.debug("hi"),
        "a user's class": lambda x: tee.write("hi"),
        "questions": lambda x: logging.getLogger("output").getEffectiveLevel() + sys.stdout.isatty(),
    }
    for name, call in silent.items():
        assert not _told(call), name
    assert tee.lines == ["hi"] * 3


@pytest.mark.filterwarnings("ignore:'f' calls")
def test_a_class_of_the_users_writes_at_each_call(capsys):
    class Counted:
        def __init__(self):
            self.count, self.lines = 0, []

        def write(self, text):
            self.count += 1
            self.lines.append(text)

    found = []
    for wrap in (lambda f: f, jtorch.compile):
        counted = Counted()

        def f(x, counted=counted):
            print(x.shape, "hi", file=counted)
            return x * 2

        f = wrap(f)
        for _ in range(3):
            f(t(1))
        found.append((counted.count, counted.lines))
    assert found[0] == found[1]


def test_a_logger_that_gets_another_level_is_heard_of():
    log, heard = logging.getLogger("jtorch_test.output"), io.StringIO()
    log.addHandler(logging.StreamHandler(heard))
    log.setLevel(logging.ERROR)

    @jtorch.compile
    def f(x):
        log.info("hi")
        return x * 2

    f(t(1))
    assert not heard.getvalue()
    log.setLevel(logging.INFO)
    f(t(1))
    assert heard.getvalue() == "hi\n"


REFUSED = {
    "read": lambda s: s.read(1),
    "readline": lambda s: s.readline(),
    "lines": lambda s: [*s],
    "getvalue": lambda s: s.getvalue(),
    "seek": lambda s: s.seek(0),
    "truncate": lambda s: s.truncate(),
    "close": lambda s: s.close(),
    "load": lambda s: json.load(s),
    "reader": lambda s: [*csv.reader(s)],
    "wrapped": lambda s: io.TextIOWrapper(s),
}


def test_a_stream_that_is_read_or_moved_is_an_error():
    for name, call in REFUSED.items():
        stream = io.BytesIO(b"[1]") if name == "wrapped" else io.StringIO("[1]")
        with pytest.raises(CompileError, match=r"test_output.py.* from outside.* would do once"):
            _told(lambda x, call=call, stream=stream: call(stream))
        assert not stream.closed, name
