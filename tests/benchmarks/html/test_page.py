"""The page of a run: it needs nothing else, holds the run's data, and shows every row."""

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from benchmarks.cli import main
from tests.benchmarks.html.runs import PROFILE, write

pytest.importorskip("matplotlib", reason="matplotlib is not installed: no charts are drawn")


class Page(HTMLParser):
    """Its elements, the texts of its cells and of its scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.rows, self.data, self.text, self.open = [], [], {}, "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open.append((tag, dict(attributes)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        tag, attributes = self.open[-1] if self.open else ("", {})
        if tag == "script" and attributes.get("type") == "application/json":
            self.data[attributes["id"]] = self.data.get(attributes["id"], "") + data
        elif tag not in ("script", "style"):
            self.text += data
        if any(name in ("td", "th") for name, _ in self.open):
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """(the text of a page of two runs, their contents)"""
    folder = tmp_path_factory.mktemp("runs")
    before, after = write(folder / "before.json"), write(folder / "after.json", seed=1, factor=1.3)
    output = folder / "page.html"
    runs = [str(folder / "before.json"), str(folder / "after.json")]
    assert main(["report", *runs, "-o", str(output)]) == 0
    return output.read_text(encoding="utf-8"), before, after


@pytest.mark.slow
def test_it_needs_no_network(pages):
    text, _, _ = pages
    page = Page(text)
    for tag, attributes in page.tags:
        assert tag not in ("link", "img", "object"), tag
        for name, value in attributes.items():
            if name in ("src", "href", "xlink:href", "action"):
                assert value.startswith("#"), (tag, name, value)
    outside = set(re.findall(r"(?:https?:)?//[\w.]+\.\w+/[\w/.]*", re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)))
    outside -= {"http://www.w3.org/2000/svg"}  # a name, which scripts make elements by
    assert not outside and "@import" not in text and "url(http" not in text


def test_the_data_come_back_as_they_were(pages):
    text, before, after = pages
    data = Page(text).data
    for name, content in (("run", after), ("before", before)):
        rows = [{k: v for k, v in row.items() if k != "document"} for row in content["rows"]]
        assert json.loads(data[name]) == content | {"rows": rows}  # documents are in pages of their own


def test_every_row_is_there_with_its_verdict(pages):
    text, _, after = pages
    page = Page(text)
    times = [row for row in page.rows if row and row[1:2] and row[0] in ("lenet", "call", "toy")]
    assert {row[0] for row in times} == {"lenet", "call", "toy"}
    assert any("2.60 ms" in cell or "2.59 ms" in cell or "2.61 ms" in cell for row in times for cell in row)
    (toy,) = [row for row in times if row[0] == "toy" and row[1].startswith("5 neurons")]
    assert toy[2].endswith("%") and toy[3] == "ERROR"
    for row in after["rows"]:
        for sentence in row["verdict"]:
            assert sentence in page.text
    assert "it pays after" in page.text and "it does not pay." in page.text
    assert "</script><b>differs" in page.text  # as text, not as an element
    assert not any(tag == "b" for tag, _ in page.tags)
    assert "python -m benchmarks run --json <run>.json" in page.text
    assert PROFILE[0]["source"] in page.text


def test_what_changed(pages):
    text, _, _ = pages
    page = Page(text)
    assert "Of 6 rows are slower: 1, faster: 0." in page.text
    (changed,) = [row for row in page.rows if row[0] == "lenet" and row[-1].endswith("slower")]
    assert changed[1] == "jtorch compiled"


def test_charts_are_whole_and_take_their_colours_from_the_page(pages):
    text, _, _ = pages
    charts = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(charts) == 5  # bars of three rows, curves of the two with first calls
    ids = []
    for chart in charts:
        root = ElementTree.fromstring(chart)
        assert root.get("aria-label") and root.get("viewBox") and root.get("width") is None
        ids += [element.get("id") for element in root.iter() if element.get("id")]
        assert "var(--series-0)" in chart and "var(--ink)" in chart
        assert not re.search(r"#0101\d\d|#000000", chart)
    assert len(ids) == len(set(ids))
    variables = set(re.findall(r"var\((--[\w-]+)\)", "".join(charts)))
    style = text[text.index("<style>") : text.index("</style>")]
    for variable in variables:
        assert style.count(f"{variable}:") == 2, variable  # light and dark


@pytest.mark.slow
def test_one_run_alone_has_nothing_to_compare(tmp_path, monkeypatch, capsys):
    write(tmp_path / "run.json")
    monkeypatch.chdir(tmp_path)
    assert main(["report", "run.json"]) == 0
    assert capsys.readouterr().out == "report.html\n"
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "What changed" not in text and "2 cores" in text and "0.5 processes were running" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["none.json"], "No such file"),
        (["run.json", "run.json", "run.json"], "takes one run, or two to compare"),
        (["run.json", "-o", "missing/page.html"], "there is no folder missing"),
    ],
)
def test_what_is_refused(arguments, told, tmp_path, monkeypatch, capsys):
    write(tmp_path / "run.json")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["report", *arguments])
    line = capsys.readouterr().err
    assert stopped.value.code == 2 and told in line and len(line.splitlines()) == 1


def test_what_a_step_compiles_to_is_a_page_in_it(pages):
    text, _, after = pages
    page = Page(text)
    (frame,) = [facts for tag, facts in page.tags if tag == "iframe"]
    assert frame["title"] == "what lenet compiles to" and frame["sandbox"] == "allow-scripts"
    assert "src" not in frame and frame["srcdoc"].startswith("<!doctype html>")
    assert after["rows"][0]["document"]["function"] == "step"
