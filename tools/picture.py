"""Makes docs/img/viz.png, the picture in the README: ``python -m tools.picture``, with Chromium on the path.

The page is what ``jtorch.viz.save`` writes of the README's first program, with the node of the ReLU pointed
at; the browser takes the picture.
"""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import jtorch.viz

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "img" / "viz.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
# The page shows its rows a moment after it is loaded. Pointing lights up what belongs to a row.
POINT = """<script>setTimeout(() => [...document.querySelectorAll("li[data-id]")]
    .find(row => row.textContent === "ReluBackward0")
    .dispatchEvent(new FocusEvent("focusin", {bubbles: true})), 500)</script>"""


def write_page(folder: Path) -> Path:
    """The page about the compiled step of the README, in ``folder``."""
    program = folder / "train.py"
    found = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, "README.md has no block of Python"
    program.write_text(found[1])
    return jtorch.viz.save(runpy.run_path(str(program))["step"], folder / "page.html")


def main() -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"no browser to take the picture with: none of {', '.join(BROWSERS)} is on the path")
    with tempfile.TemporaryDirectory() as folder:
        page = write_page(Path(folder))
        page.write_text(page.read_text() + POINT)
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=3000"]
        target = [f"--screenshot={FILE}", "--window-size=1200,560", page.as_uri()]
        subprocess.run([browser, *options, *target], check=True, timeout=120)


if __name__ == "__main__":
    main()
