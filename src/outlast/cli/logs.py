"""`outlast logs`: what the nodes of a run logged."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Annotated

import msgspec
import typer

from outlast.cli.console import WIDE, notice, show_lines, width, write_bytes, write_json
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.options import Reply, ReplyOption, RunArgument, StoreOption, settings_of
from outlast.client import Engine, Line
from outlast.compose import open_desk
from outlast.history.ids import RunId
from outlast.lifecycle.status import TERMINAL
from outlast.settings import Settings
from outlast.views.build import line_view
from outlast.views.lines import line as text_line
from outlast.views.texts import counted, cropped, plain
from outlast.views.times import local

EVERY = 0.3
"""Seconds between two looks for more; lines are brought to the store about as often."""
_STYLES = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red", "STDOUT": "dim"}


class Wanted(msgspec.Struct, frozen=True):
    """Which lines: of one node, of one attempt, only the last so many."""

    node: str
    attempt: int | None
    tail: int | None


def logs(
    ctx: typer.Context,
    run: RunArgument,
    node: Annotated[str | None, typer.Argument(help="Only this node.", metavar="NODE")] = None,
    attempt: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only this attempt.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with lines to come, until the run is over.")
    ] = False,
    tail: Annotated[int | None, typer.Option(min=0, metavar="N", help="Begin with the last so many lines.")] = None,
    store: StoreOption = None,
    output: ReplyOption = Reply.TEXT,
) -> None:
    """Show what the nodes of a run logged.

    Of each attempt the newest lines are kept. With -o json each line is one
    object; with -o ids only its number.

    \b
    outlast logs 01a1e436-2c39
    outlast logs 01a1e436-2c39 fetch --attempt 2
    outlast logs 01a1e436-2c39 --follow --tail 20
    """
    # More lines than a machine can count are all of them.
    wanted = Wanted(node or "", attempt, None if tail is None else min(tail, sys.maxsize))
    carry_out(lambda: _logs(settings_of(ctx, store), run, wanted, follow, output))


async def _logs(settings: Settings, name: str, wanted: Wanted, follow: bool, reply: Reply) -> int:
    writer = Writer(reply, is_cut=wanted.tail is not None)
    async with open_desk(settings, readonly=True) as desk:
        run = await desk.find(name)
        shown, last = await _earlier(desk, run, wanted)
        for line in shown:
            writer.write(line)
        if follow:
            async for line in _to_come(desk, run, wanted, last):
                writer.write(line)
                last = line.number
    if not last and reply is Reply.TEXT:
        notice("no lines are kept" + (f" of node {wanted.node}" if wanted.node else f" of run {run}"))
    return SOUND


async def _earlier(desk: Engine, run: RunId, wanted: Wanted) -> tuple[Iterable[Line], int]:
    """The lines there are, as many as are to be shown, and the number of the last one."""
    shown: deque[Line] = deque(maxlen=wanted.tail)
    last = 0
    async for line in desk.lines(run, node=wanted.node, attempt=wanted.attempt):
        shown.append(line)
        last = line.number
    return shown, last


async def _to_come(desk: Engine, run: RunId, wanted: Wanted, after: int) -> AsyncIterator[Line]:
    """Lines after that one, until the run is over and its last ones have had the time to arrive."""
    rounds_left = 2
    while rounds_left:
        summary = await desk.get(run)
        if summary.status in TERMINAL:
            rounds_left -= 1
        async for line in desk.lines(run, node=wanted.node, attempt=wanted.attempt, after=after):
            after = line.number
            yield line
        await asyncio.sleep(EVERY)


class Writer:
    """Writes lines in one form. What was dropped before the first line of an attempt is said, unless lines were `is_cut`."""

    def __init__(self, reply: Reply, *, is_cut: bool) -> None:
        self._reply = reply
        self._is_cut = is_cut
        self._begun: set[tuple[str, int]] = set()

    def write(self, line: Line) -> None:
        if self._reply is Reply.JSON:
            write_json(line_view(line))
        elif self._reply is Reply.IDS:
            write_bytes(b"%d\n" % line.number)
        else:
            self._remark(line)
            self._show(line)

    def _remark(self, line: Line) -> None:
        source = (line.node, line.attempt)
        if source not in self._begun and line.place > 1 and not self._is_cut:
            notice(f"{counted(line.place - 1, 'earlier line')} of {_speaker(line)} were not kept")
        self._begun.add(source)

    def _show(self, line: Line) -> None:
        first, *more = line.text.expandtabs().split("\n")
        head = text_line(
            (f"{local(line.time, full=width() >= WIDE)}  ", "dim"),
            (f"{_speaker(line)}  ", "cyan"),
            (f"{cropped(line.level, 10):<7}  ", _STYLES.get(line.level, "")),
            (f"{cropped(line.logger, 60)}: " if line.logger else "", "dim"),
            plain(first, keep_indent=True),
            fit="copy",
        )
        show_lines([head, *(text_line(f"    {plain(each, keep_indent=True)}", fit="copy") for each in more)])


def _speaker(line: Line) -> str:
    return cropped(line.node, 60) + (f" #{line.attempt}" if line.attempt > 1 else "")
