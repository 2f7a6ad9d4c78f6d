"""`outlast events`: what happened in a run, one line per event."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from outlast.cli.console import is_wide, screen, show_line, write_bytes, write_json
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.options import Output, OutputOption, StoreOption, settings_of
from outlast.client import Engine, Entry, Interval
from outlast.compose import open_desk
from outlast.errors import Damaged, InvalidInput
from outlast.history.ids import RunId
from outlast.lifecycle.timeline import text_of
from outlast.settings import Settings
from outlast.views.build import event_view
from outlast.views.times import local

LOOK_AHEAD = 200
"""Events whose width decides the columns; those that follow are printed as they are read."""

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


def events(
    ctx: typer.Context,
    run: Annotated[str, typer.Argument(help="The run: its id or a beginning of it.", metavar="RUN")],
    branch: Annotated[
        int | None,
        typer.Option("--branch", "-b", min=0, metavar="N", help="What this branch sees; the current one by default."),
    ] = None,
    everything: Annotated[bool, typer.Option("--everything", "-e", help="The whole log, with dead branches.")] = False,
    after: Annotated[int, typer.Option(min=0, help="Only events after this one.", metavar="SEQ")] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with events to come, until the run is over.")
    ] = False,
    store: StoreOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what happened in a run.

    With -o json each event is one line; with -o ids only its number.

    \b
    outlast events 01a1e436-2c39
    outlast events 01a1e436-2c39 --follow
    outlast events 01a1e436-2c39 --everything
    outlast events 01a1e436-2c39 -o json | jq 'select(.type == "NodeFailed")'
    """
    wanted = Wanted(branch, everything, after, follow)
    carry_out(lambda: _events(settings_of(ctx, store), run, wanted, output))


class Wanted(msgspec.Struct, frozen=True):
    """Which events: of a branch, of all, after one, and whether those to come too."""

    branch: int | None
    everything: bool
    after: int
    follow: bool


async def _events(settings: Settings, name: str, wanted: Wanted, output: Output) -> int:
    if wanted.follow and wanted.branch is not None:
        raise InvalidInput("only the current branch can be followed: leave --branch away")
    async with open_desk(settings, readonly=True) as desk:
        run = await desk.find(name)
        seen = Seen(desk, run, wanted)
        if output is Output.TABLE:
            await show_lines(screen(), seen.told(), await _current(desk, run), seen.to_come())
            return SOUND
        for told in (seen.told(), seen.to_come()):
            async for entry in told:
                if output is Output.JSON:
                    write_json(event_view(entry))
                else:
                    write_bytes(b"%d\n" % entry.seq)
    return SOUND


class Seen:
    """The events there are, and then those to come."""

    def __init__(self, desk: Engine, run: RunId, wanted: Wanted) -> None:
        self._desk, self._run, self._wanted = desk, run, wanted
        self._last = wanted.after

    async def told(self) -> AsyncIterator[Entry]:
        wanted = self._wanted
        async for entry in self._desk.events(
            self._run, branch=wanted.branch, everything=wanted.everything, after=wanted.after
        ):
            self._last = entry.seq
            yield entry

    async def to_come(self) -> AsyncIterator[Entry]:
        if self._wanted.follow:
            async for entry in self._desk.watch(self._run, after=self._last):
                yield entry


async def _current(desk: Engine, run: RunId) -> tuple[Interval, ...]:
    """What the current branch sees; a log whose branches do not read is shown without them."""
    try:
        return await desk.diagnostics.lineage(run)
    except Damaged:
        return ()


async def show_lines(
    console: Console,
    told: AsyncIterator[Entry],
    current: tuple[Interval, ...],
    to_come: AsyncIterator[Entry] | None = None,
) -> None:
    """One line each. Events that the current branch does not see are dimmed; those that came since are not judged."""
    ahead: list[Entry] = []
    try:
        async for entry in told:
            ahead.append(entry)
            if len(ahead) == LOOK_AHEAD:
                break
    finally:  # what precedes the damage is shown before the damage is reported
        write = _writer(console, ahead, current)
        for entry in ahead:
            write(entry)
    async for entry in told:
        write(entry)
    if to_come is not None:
        console.file.flush()
        async for entry in to_come:
            write(entry)
            console.file.flush()


def _writer(console: Console, ahead: list[Entry], current: tuple[Interval, ...]) -> Callable[[Entry], None]:
    digits = len(str(current[-1][1])) if current else 6
    names = max((len(type(entry.event).__name__) for entry in ahead), default=0)
    has_branches = len(current) != 1

    def write(entry: Entry) -> None:
        name = type(entry.event).__name__
        parts = [(f"{entry.seq:>{digits}}  ", "cyan")]
        if has_branches:
            parts.append((f"{entry.branch:>2}  ", "magenta"))
        parts.append((f"{local(entry.time, full=is_wide(console))}  ", "dim"))
        parts.append((f"{name:<{names}}  ", _style(name)))
        parts.append((text_of(entry.event, entry.time), ""))
        line = Text.assemble(*parts)
        is_older = current and entry.seq <= current[-1][1]
        if is_older and not any(first <= entry.seq <= last for first, last in current):
            line.stylize("dim")
        show_line(console, line)

    return write


def _style(name: str) -> str:
    return next((style for part, style in _STYLES if part in name), "")
