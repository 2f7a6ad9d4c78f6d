"""How far a run is, on the terminal, while it goes on. Rich's live display is imported only where somebody looks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from outlast.cli.streams import own
from outlast.lifecycle.timeline import text_of
from outlast.views.build import wait_view
from outlast.views.run_view import Tally
from outlast.views.texts import COLOURS, cropped, plain, short_ids, wait_in_words
from outlast.views.times import span
from outlast.views.types import ProgressView

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.text import Text

SHOWN = 6
"""Nodes, progress bars and waits that are named; of more there is the number."""


class Display:
    """Shows a run until it is closed; with `is_on` false it does nothing. If `prints_pass`, what nodes print scrolls above
    it."""

    def __init__(self, *, is_on: bool, prints_pass: bool = True) -> None:
        self._live = _live(prints_pass) if is_on and own().isatty() and sys.stderr.isatty() else None

    @property
    def is_on(self) -> bool:
        return self._live is not None

    def show(self, tally: Tally, said: Sequence[ProgressView], now: int) -> None:
        """Show how it stands."""
        if self._live is not None:
            self._live.start()
            self._live.update(picture(tally, said, now), refresh=True)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Leave the terminal to others."""
        self.close()
        yield

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()


def _live(prints_pass: bool) -> Live:
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    return Live(console=console, auto_refresh=False, transient=True, redirect_stdout=prints_pass)


def picture(tally: Tally, said: Sequence[ProgressView], now: int) -> RenderableType:
    """The run in a few lines: itself, what is under way, how far that says it is, what it waits for."""
    from rich.console import Group
    from rich.text import Text

    state, outline = tally.state, tally.state.outline
    lines: list[RenderableType] = [
        Text.assemble(
            (plain(short_ids([tally.run])[tally.run]), "cyan"),
            f"  {cropped(outline.workflow, 40)}  ",
            (state.status, COLOURS[state.status]),
            f"  {span(now - outline.created)}  {outline.done_nodes} done",
            f", {len(tally.running)} running" if tally.running else "",
            no_wrap=True,
            overflow="ellipsis",
        )
    ]
    if tally.running:
        lines.append(_line("running", _running(tally.running)))
    lines += [_bar(each) for each in said if each.node in tally.running][:SHOWN]
    waits = [wait_in_words(wait_view(wait), now) for wait in state.waits.values()]
    if waits:
        lines.append(_line("waits for", _some(waits)))
    if tally.newest is not None:
        lines.append(_line("last", text_of(tally.newest.event, tally.newest.time)))
    return Group(*lines)


def _running(running: Mapping[str, int]) -> str:
    return _some([cropped(name, 60) + (f" #{attempt}" if attempt > 1 else "") for name, attempt in running.items()])


def _some(words: Sequence[str]) -> str:
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(words[:SHOWN]) + more


def _line(title: str, words: str) -> Text:
    from rich.text import Text

    return Text.assemble((f"  {title} ", "dim"), words, no_wrap=True, overflow="ellipsis")


def _bar(said: ProgressView) -> Any:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    row = Table.grid(padding=(0, 1))
    amount = f"{said.done:,g}" if said.total is None else f"{said.done:,g} of {said.total:,g}"
    bar = ProgressBar(total=said.total or None, completed=said.done, width=30) if said.total else Text("")
    row.add_row(Text(f"  {cropped(said.node, 40)}"), bar, Text(amount), Text(cropped(said.text, 60), style="dim"))
    return row
