"""Tables that fit their console: in columns where there is room, else each row's cells one below another."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

ERROR = "[bold red]ERROR[/]"  # the one cell that is markup; all others are shown as they are
PIPED = 100  # columns where standard output is no terminal
_UNBOUNDED = 10_000


def console() -> Console:
    """Of standard output: as wide as the terminal, PIPED columns where there is none."""
    return Console(width=None if sys.stdout.isatty() else PIPED)


def show(
    console: Console,
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Sequence[str] = (),
    caption: str = "",
) -> None:
    """Print ``rows`` under ``headings``; columns are flush right but for the first and those in ``left``.

    Without rows nothing is printed.
    """
    if not rows:
        return
    texts = [[cell if cell == ERROR else escape(cell) for cell in row] for row in rows]
    table = Table(title=title, caption=caption or None, box=box.SIMPLE)
    for k, heading in enumerate(headings):
        table.add_column(heading, justify="left" if not k or heading in left else "right")
    for row in texts:
        table.add_row(*row)
    wide = console.options.update(width=_UNBOUNDED)
    if Measurement.get(console, wide, table).maximum <= console.width:
        console.print(table)
        return
    console.print(f"\n[italic]{title}[/]\n")
    for row in texts:
        console.print(row[0], style="bold", highlight=False)
        console.print(_below_each_other(headings[1:], row[1:]))
    console.print(caption, style="dim", highlight=False)


def _below_each_other(headings: Sequence[str], cells: Sequence[str]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for heading, cell in zip(headings, cells, strict=True):
        if cell:
            grid.add_row(f"  {' '.join(heading.split())}", cell)
    return grid
