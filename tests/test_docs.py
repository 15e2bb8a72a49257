"""docs/how_it_works.md: its blocks run in order, and print what stands under them."""

import contextlib
import io
import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[1] / "docs" / "how_it_works.md"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def run_blocks():
    """(source, what it printed, what the document shows) of each block."""
    namespace = {"__name__": "how_it_works"}
    for match in BLOCK.finditer(DOCUMENT.read_text()):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(match[1], "how_it_works.py", "exec"), namespace)
        yield match[1], printed.getvalue(), match[2] or ""


def test_every_block_prints_what_the_document_shows():
    for source, printed, shown in run_blocks():
        assert printed.rstrip() == shown.rstrip(), source


def update():
    """Put what the blocks print today under them: ``python tests/test_docs.py`` after a look at the diff."""
    text = DOCUMENT.read_text()
    outputs = iter([printed for _, printed, _ in run_blocks()])

    def replace(match):
        printed = next(outputs).rstrip()
        block = f"```python\n{match[1]}```\n"
        return block + (f"\n```text\n{printed}\n```\n" if printed else "")

    DOCUMENT.write_text(BLOCK.sub(replace, text))


if __name__ == "__main__":
    update()
