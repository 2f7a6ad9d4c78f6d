"""`outlast logs`."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from functools import partial
from typing import Annotated

import typer

from outlast.cli.console import WIDE, notice, show_lines, width, write_bytes, write_json
from outlast.cli.entrypoint import SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import Output, OutputOption, RunArgument
from outlast.cli.streams import own
from outlast.client import Line
from outlast.lifecycle.status import TERMINAL
from outlast.lifecycle.timeline.phrases import counted, cropped, plain
from outlast.settings import Settings
from outlast.views.build import line_view
from outlast.views.lines import line as text_line
from outlast.views.times import local

INTERVAL_S = 0.3
"""Time between two reads with --follow. Workers write lines to the store about as often."""
_STYLES = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red", "STDOUT": "dim"}


@command
async def logs(
    settings: Settings,
    run: RunArgument,
    node: Annotated[str | None, typer.Argument(help="Show only this node.", metavar="NODE")] = None,
    attempt: Annotated[int | None, typer.Option(min=1, metavar="N", help="Show only this attempt.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new lines, until the run ends.")] = False,
    tail: Annotated[int | None, typer.Option(min=0, metavar="N", help="Begin with the last N lines.")] = None,
    output: OutputOption = Output.TEXT,
) -> int:
    """Show the log lines of the nodes of a run.

    The store keeps the newest lines of each attempt. With -o json each line is
    an object; with -o ids only its number.

    \b
    outlast logs 01a1e436-2c39
    outlast logs 01a1e436-2c39 fetch --attempt 2
    outlast logs 01a1e436-2c39 --follow --tail 20
    """
    writer = Writer(output, is_cut=tail is not None)
    shown: deque[Line] = deque(maxlen=None if tail is None else min(tail, sys.maxsize))
    last = 0
    async with opened(settings, readonly=True) as engine:
        found = await engine.find(run)
        read = partial(engine.lines, found, node=node or "", attempt=attempt)
        async for line in read():
            shown.append(line)
            last = line.number
        for line in shown:
            writer.write(line)
        rounds_left = 2 if follow else 0
        own().flush()
        while rounds_left:  # the last lines may arrive after the run ended
            rounds_left -= (await engine.get(found)).status in TERMINAL
            async for line in read(after=last):
                writer.write(line)
                last = line.number
            own().flush()
            await asyncio.sleep(INTERVAL_S)
    if not last and output is Output.TEXT:
        notice(f"node {node} has no log lines" if node else f"run {found} has no log lines")
    return SOUND


class Writer:
    """Prints lines in an output format. If the store dropped the first lines of an attempt, a message says how many, unless
    the output `is_cut` by --tail."""

    def __init__(self, output: Output, *, is_cut: bool) -> None:
        self._output, self._is_cut = output, is_cut
        self._begun: set[tuple[str, int]] = set()

    def write(self, line: Line) -> None:
        if self._output is Output.JSON:
            write_json(line_view(line))
        elif self._output is Output.IDS:
            write_bytes(b"%d\n" % line.number)
        else:
            self._show(line)

    def _show(self, line: Line) -> None:
        attempt = cropped(line.node, 60) + (f" #{line.attempt}" if line.attempt > 1 else "")
        source = (line.node, line.attempt)
        if source not in self._begun and line.place > 1 and not self._is_cut:
            notice(f"{counted(line.place - 1, 'earlier line')} of {attempt} were not kept")
        self._begun.add(source)
        first, *more = line.text.expandtabs().split("\n")
        head = text_line(
            (f"{local(line.time, full=width() >= WIDE)}  ", "dim"),
            (f"{attempt}  ", "cyan"),
            (f"{cropped(line.level, 10):<7}  ", _STYLES.get(line.level, "")),
            (f"{cropped(line.logger, 60)}: " if line.logger else "", "dim"),
            plain(first, keep_indent=True),
            fit="copy",
        )
        show_lines([head, *(text_line(f"    {plain(each, keep_indent=True)}", fit="copy") for each in more)])
