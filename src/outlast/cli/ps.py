"""`outlast ps`: which runs there are and how they stand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated

import msgspec
import typer
from rich.console import Console, Group
from rich.text import Text

from outlast.cli.doorway import SOUND, carry_out
from outlast.cli.options import Output, OutputOption, StoreOption, settings_of
from outlast.cli.screen import columns, notice, screen, show_line, write_bytes, write_json
from outlast.cli.shapes import run_shape
from outlast.cli.when import parse_time, span
from outlast.cli.words import COLOURS, about, counted, cropped, plain, short_ids
from outlast.client import Client, Page, Query, Summary
from outlast.compose import open_desk
from outlast.errors import BadInput
from outlast.lifecycle.status import Status, parse_status
from outlast.settings import Settings

PAGE = 1000
EVERY = 1.0
"""Seconds between two looks with --watch."""


def ps(
    ctx: typer.Context,
    status: Annotated[
        list[str] | None,
        typer.Option(
            "--status",
            "-s",
            metavar="STATUS",
            help="Only runs in this status; may be given again, or several with commas.",
        ),
    ] = None,
    workflow: Annotated[str, typer.Option("--workflow", "-w", metavar="NAME", help="Only runs of this workflow.")] = "",
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", "-t", metavar="TAG", help="Only runs with this tag; given again, with all of them."),
    ] = None,
    parent: Annotated[str, typer.Option(help="Only the children of this run.", metavar="RUN")] = "",
    text: Annotated[
        str, typer.Option(metavar="TEXT", help="Only runs with this in id, workflow, title, tags or reason.")
    ] = "",
    since: Annotated[str, typer.Option(help="Only runs created since: 2h, 7d, 2026-11-01 …", metavar="WHEN")] = "",
    until: Annotated[str, typer.Option(help="Only runs created before.", metavar="WHEN")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="Show at most so many.")] = 50,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Show every one.")] = False,
    after: Annotated[str, typer.Option(help="Go on where another list ended.", metavar="CURSOR")] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Keep the list on the screen, until Ctrl+C.")] = False,
    store: StoreOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List runs, the newest first.

    \b
    [dim]outlast ps --status failed,waiting --since 2d
    outlast ps --workflow digest --tag nightly --all
    outlast ps --watch
    outlast ps --status failed -o ids | xargs outlast verify[/dim]
    """
    query = Query(workflow=workflow, tags=tuple(tag or ()), parent=parent, text=text, after=after)
    most = None if everything else limit
    shown = partial(_watch, limit=limit) if watch else partial(_show, limit=most, output=output)
    carry_out(lambda: _ps(settings_of(ctx, store), query, status or (), (since, until), shown))


async def _ps(
    settings: Settings,
    query: Query,
    statuses: Sequence[str],
    times: tuple[str, str],
    show: Callable[[Client, Query, int], Awaitable[None]],
) -> int:
    wanted = _statuses(statuses)
    async with open_desk(settings, readonly=True) as desk:
        now = await desk.now()
        created_from, created_until = (parse_time(time, now) if time else None for time in times)
        if created_from is not None and created_until is not None and created_from >= created_until:
            raise BadInput(f"no run was created since {times[0]} and before {times[1]}: that is an empty time")
        query = msgspec.structs.replace(
            query,
            statuses=wanted,
            parent=await desk.find(query.parent) if query.parent else "",
            created_from=created_from,
            created_until=created_until,
        )
        await show(desk, query, now)
    return SOUND


def _statuses(names: Sequence[str]) -> tuple[Status, ...]:
    return tuple(parse_status(name) for listed in names for name in listed.split(",") if name.strip())


async def _show(desk: Client, query: Query, now: int, *, limit: int | None, output: Output) -> None:
    runs: list[Summary] = []
    shown, following = 0, ""
    async for page in _pages(desk, query, limit):
        shown, following = shown + len(page.items), page.next
        if output is Output.IDS:
            write_bytes("".join(f"{listed.summary.run}\n" for listed in page.items).encode())
        else:
            runs += [listed.summary for listed in page.items]
    if output is Output.JSON:
        write_json({"runs": [run_shape(run) for run in runs], "next": following or None}, pretty=True)
    elif output is Output.TABLE and runs:
        show_table(screen(), runs, now)
    if output is not Output.JSON:
        _remark(shown, following, is_filtered=query != Query(limit=query.limit))


async def _pages(desk: Client, query: Query, limit: int | None) -> AsyncIterator[Page]:
    """Pages until there are no more, or `limit` runs."""
    left = limit
    while left is None or left > 0:
        size = PAGE if left is None else min(left, PAGE)
        page = await desk.list(msgspec.structs.replace(query, limit=size))
        yield page
        if not page.next:
            return
        left = None if left is None else left - len(page.items)
        query = msgspec.structs.replace(query, after=page.next)


def _remark(shown: int, following: str, *, is_filtered: bool) -> None:
    if following:
        notice(
            f"{counted(shown, 'run')} shown, there are more",
            f"See them with --all, with --limit {2 * shown}, or with --after {following}",
            style="bold",
        )
    elif not shown:
        notice("no run matches" if is_filtered else "the store holds no runs yet")


async def _watch(desk: Client, query: Query, _: int, *, limit: int) -> None:
    """The list, again and again, as much of it as the screen holds. Ctrl+C is how it ends, and no interruption."""
    console = screen()
    if not console.is_terminal:
        raise BadInput("--watch wants a terminal; `outlast events RUN --follow` can be piped")
    from rich.live import Live

    with suppress(asyncio.CancelledError), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            most = max(1, min(limit, console.size.height - 2))
            page = await desk.list(msgspec.structs.replace(query, limit=most))
            runs = [listed.summary for listed in page.items]
            lines = table(runs, await desk.now()) if runs else [Text("no runs", style="dim")]
            for line in lines:
                line.truncate(console.size.width, overflow="ellipsis")
            live.update(Group(*lines), refresh=True)
            await asyncio.sleep(EVERY)


def show_table(console: Console, runs: Sequence[Summary], now: int) -> None:
    """One line per run, cut to the width of the screen; only the last column gives way."""
    for line in table(runs, now):
        show_line(console, line)


def table(runs: Sequence[Summary], now: int) -> list[Text]:
    """A line of titles, and one per run."""
    ids = short_ids(run.run for run in runs)
    rows = [
        (
            Text(plain(ids[run.run]), style="cyan"),
            Text(cropped(run.workflow, 24)),
            Text(run.status, style=COLOURS[run.status]),
            Text(f"{span(now - run.created):>4}"),
            # While a run runs, its summary is not written with every node: better no number than an old one.
            Text("" if run.status is Status.RUNNING else f"{run.done_nodes:>4}"),
            Text(about(run, now)),
        )
        for run in runs
    ]
    titles = ("run", "workflow", "status", " age", "done", "waits for, or why")
    return list(columns([tuple(Text(title, style="bold") for title in titles), *rows]))
