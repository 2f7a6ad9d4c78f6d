"""`outlast events`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated

import typer

from outlast.cli.console import WIDE, show_lines, width, write_bytes, write_json
from outlast.cli.entrypoint import SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import Output, OutputOption, RunArgument
from outlast.cli.streams import own
from outlast.client import Entry, Interval
from outlast.errors import Damaged, InvalidInput
from outlast.lifecycle.timeline import text_of
from outlast.settings import Settings
from outlast.views.build import event_view
from outlast.views.lines import Line, line
from outlast.views.times import local

LOOK_AHEAD = 200
"""Events that determine the width of the columns. Later events are printed as they are read."""

_STYLES = (
    ("Failed", "red"),
    ("Completed", "green"),
    ("Requested", "yellow"),
    ("Interaction", "yellow"),
    ("Branch", "magenta"),
    ("RunRecovered", "magenta"),
    ("RunTakenOver", "magenta"),
    ("Run", "bold"),
)


@command
async def events(
    settings: Settings,
    run: RunArgument,
    branch: Annotated[
        int | None,
        typer.Option("--branch", "-b", min=0, metavar="N", help="Branch to show (default: the current one)."),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option("--node", metavar="NODE", help="Show only events of this call of a node, such as fetch#2."),
    ] = None,
    everything: Annotated[bool, typer.Option("--everything", "-e", help="Show the events of all branches.")] = False,
    after: Annotated[int, typer.Option(min=0, help="Show only events after this one.", metavar="SEQ")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new events, until the run ends.")] = False,
    output: OutputOption = Output.TEXT,
) -> int:
    """Show the events of a run.

    With -o json each line is an event; with -o ids only its number.

    \b
    outlast events 01a1e436-2c39
    outlast events 01a1e436-2c39 --follow
    outlast events 01a1e436-2c39 --everything
    outlast events 01a1e436-2c39 --node fetch#2
    outlast events 01a1e436-2c39 -o json | jq 'select(.type == "NodeFailed")'
    """
    if follow and branch is not None:
        raise InvalidInput("--follow shows the current branch: omit --branch")
    async with opened(settings, readonly=True) as engine:
        found = await engine.find(run)
        wanted = engine.events(found, node=node or "", branch=branch, everything=everything, after=after)
        lines = EventLines()
        with suppress(Damaged):  # a log whose branches cannot be read is shown without them
            lines.current = await engine.diagnostics.lineage(found)
        last = after
        try:
            async for entry in wanted:
                last = entry.seq
                _show(entry, lines, output)
        finally:  # events before a damage are shown before the error
            show_lines(lines.rest())
        if follow:
            own().flush()
            async for entry in engine.watch(found, after=last):
                if not node or getattr(entry.event, "node", "") == node:
                    _show(entry, lines, output)
                    own().flush()
    return SOUND


def _show(entry: Entry, lines: EventLines, output: Output) -> None:
    if output is Output.JSON:
        write_json(event_view(entry))
    elif output is Output.IDS:
        write_bytes(b"%d\n" % entry.seq)
    else:
        show_lines(lines.add(entry))


class EventLines:
    """Lines of events in columns. Events that are not on the current branch are dim; new events are not."""

    def __init__(self, current: tuple[Interval, ...] = ()) -> None:
        self.current = current
        self._ahead: list[Entry] | None = []
        self._name_width = 0

    def add(self, entry: Entry) -> Iterator[Line]:
        if self._ahead is None:
            yield self._line(entry)
            return
        self._ahead.append(entry)
        if len(self._ahead) == LOOK_AHEAD:
            yield from self.rest()

    def rest(self) -> Iterator[Line]:
        ahead, self._ahead = self._ahead or [], None
        self._name_width = max([self._name_width, *(len(type(entry.event).__name__) for entry in ahead)])
        yield from map(self._line, ahead)

    def _line(self, entry: Entry) -> Line:
        current, name = self.current, type(entry.event).__name__
        digits = len(str(current[-1][1])) if current else 6
        spans = [
            (f"{entry.seq:>{digits}}  ", "cyan"),
            (f"{entry.branch:>2}  " if len(current) != 1 else "", "magenta"),
            (f"{local(entry.time, full=width() >= WIDE)}  ", "dim"),
            (f"{name:<{self._name_width}}  ", next((style for part, style in _STYLES if part in name), "")),
            (text_of(entry.event, entry.time), ""),
        ]
        is_older = current and entry.seq <= current[-1][1]
        if is_older and not any(first <= entry.seq <= last for first, last in current):
            spans = [(text, "dim") for text, _ in spans]
        return line(*spans)
