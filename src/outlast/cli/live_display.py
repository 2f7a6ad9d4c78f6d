"""The progress of a run on the terminal, redrawn while the command waits. Rich is imported only for a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from outlast.cli.console import drawn, screen
from outlast.cli.streams import own
from outlast.lifecycle.timeline import text_of
from outlast.lifecycle.timeline.phrases import cropped, plain, wait_text
from outlast.views.lines import Line, line, table
from outlast.views.run_view import Tally
from outlast.views.texts import COLOURS, amount_text, short_ids
from outlast.views.times import span
from outlast.views.types import ProgressView

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

SHOWN = 6
"""Nodes, progress bars and waits that are shown."""
BAR = 30
"""Columns of a progress bar."""


class Display:
    """Shows a run until it is closed; without `is_on` it does nothing. With `prints_pass`, output of nodes scrolls above."""

    def __init__(self, *, is_on: bool, prints_pass: bool = True) -> None:
        self._live: Live | None = None
        if is_on and own().isatty() and sys.stderr.isatty():
            from rich.live import Live

            self._console: Console = screen(stderr=True)
            self._live = Live(console=self._console, auto_refresh=False, transient=True, redirect_stdout=prints_pass)

    @property
    def is_on(self) -> bool:
        return self._live is not None

    def show(self, tally: Tally, progress: Sequence[ProgressView], now: int) -> None:
        if self._live is not None:
            self._live.start()
            self._live.update(drawn(picture(tally, progress, now), self._console), refresh=True)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Free the terminal for other output."""
        self.close()
        yield

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()


def picture(tally: Tally, progress: Sequence[ProgressView], now: int) -> Iterator[Line]:
    """The run, its running nodes, their progress, its waits and its newest notable event."""
    state, outline = tally.state, tally.state.outline
    running = f", {len(tally.running)} running" if tally.running else ""
    yield line(
        (plain(short_ids([tally.run])[tally.run]), "cyan"),
        f"  {cropped(outline.workflow, 40)}  ",
        (state.status, COLOURS[state.status]),
        f"  {span(now - outline.created)}  {outline.done_nodes} done{running}",
    )
    nodes = [cropped(name, 60) + (f" #{attempt}" if attempt > 1 else "") for name, attempt in tally.running.items()]
    waits = [wait_text(wait, now) for wait in state.waits.values()]
    yield from _part("running", nodes)
    bars = [_bar(each) for each in progress if each.node in tally.running][:SHOWN]
    yield from table(bars, indent="  ") if bars else ()
    yield from _part("waits for", waits)
    if tally.newest is not None:
        yield from _part("last", [text_of(tally.newest.event, tally.newest.time)])


def _part(title: str, texts: Sequence[str]) -> Iterator[Line]:
    if texts:
        more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
        yield line((f"  {title} ", "dim"), ", ".join(texts[:SHOWN]) + more)


def _bar(progress: ProgressView) -> list[tuple[str, str]]:
    done = round(BAR * min(1.0, max(0.0, progress.done / progress.total))) if progress.total else 0
    bar = "━" * done + "─" * (BAR - done) if progress.total else ""
    return [
        (cropped(progress.node, 40), ""),
        (bar, "magenta"),
        (amount_text(progress), ""),
        (cropped(progress.text, 60), "dim"),
    ]
