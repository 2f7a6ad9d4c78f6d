"""`outlast ps`: which runs there are and how they stand."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated

import msgspec
import typer

from outlast.cli.console import notice, rich_text, screen, show_lines, write_bytes, write_json
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.options import Output, OutputOption, StoreOption, settings_of
from outlast.client import Engine, Page, RunFilter, RunSummary
from outlast.compose import open_desk
from outlast.errors import InvalidInput
from outlast.lifecycle.status import RunStatus, parse_status
from outlast.settings import Settings
from outlast.store import Holding
from outlast.views.build import run_view
from outlast.views.lines import fitted, line
from outlast.views.text import lines_of
from outlast.views.texts import AT_WORK, counted
from outlast.views.times import parse_time
from outlast.views.types import RunListView, RunView

PAGE = 1000
EVERY = 1.0
"""Seconds between two looks with --watch."""
HELD = "held"
"""What people may ask for like a status: failed, and waiting for a person to decide."""


class Wanted(msgspec.Struct, frozen=True):
    """Runs in which statuses are asked for, all if none is named; and of those that failed, whether only those that are
    held, or only the others. None: both."""

    statuses: tuple[RunStatus, ...]
    held: bool | None

    def has(self, summary: RunSummary) -> bool:
        return self.held is None or summary.status is not RunStatus.FAILED or summary.held is self.held


def ps(
    ctx: typer.Context,
    status: Annotated[
        list[str] | None,
        typer.Option(
            "--status",
            "-s",
            metavar="STATUS",
            help="Only runs in this status; may be given again, or several with commas. Runs that failed in a way that "
            "waits for a person are `held`, and not among the `failed`.",
        ),
    ] = None,
    workflow: Annotated[
        str | None, typer.Option("--workflow", "-w", metavar="NAME", help="Only runs of this workflow.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", "-t", metavar="TAG", help="Only runs with this tag; given again, with all of them."),
    ] = None,
    parent: Annotated[str | None, typer.Option(help="Only the children of this run.", metavar="RUN")] = None,
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only runs with this in id, workflow, title, tags or reason.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only runs created since: 2h, 7d, 2026-11-01 …", metavar="WHEN")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only runs created before.", metavar="WHEN")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="Show at most so many.")] = 50,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Show every one.")] = False,
    after: Annotated[str | None, typer.Option(help="Go on where another list ended.", metavar="CURSOR")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep the list on the screen, until Ctrl+C.")] = False,
    store: StoreOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List runs, the newest first.

    \b
    outlast ps --status failed,waiting --since 2d
    outlast ps --status held
    outlast ps --workflow digest --tag nightly --all
    outlast ps --watch
    outlast ps --status failed -o ids | xargs outlast verify
    """
    query = RunFilter(
        workflow=workflow or "", tags=tuple(tag or ()), parent=parent or "", text=text or "", after=after or ""
    )
    most = None if everything else limit
    shown = partial(_watch, limit=limit, output=output) if watch else partial(_show, limit=most, output=output)
    carry_out(lambda: _ps(settings_of(ctx, store), query, _wanted(status or ()), (since, until), shown))


async def _ps(
    settings: Settings,
    query: RunFilter,
    wanted: Wanted,
    times: tuple[str | None, str | None],
    show: Callable[[Engine, RunFilter, Wanted, int], Awaitable[None]],
) -> int:
    async with open_desk(settings, readonly=True) as desk:
        now = await desk.diagnostics.now()
        created_from, created_until = (parse_time(time, now) if time else None for time in times)
        if created_from is not None and created_until is not None and created_from >= created_until:
            raise InvalidInput(f"no run was created since {times[0]} and before {times[1]}: that is an empty time")
        query = msgspec.structs.replace(
            query,
            statuses=wanted.statuses,
            parent=await desk.find(query.parent) if query.parent else "",
            created_from=created_from,
            created_until=created_until,
        )
        await show(desk, query, wanted, now)
    return SOUND


def _wanted(given: Sequence[str]) -> Wanted:
    """What a comma stands beside may be missing, but not all of it: then every run would be meant."""
    names = [name.strip().lower() for listed in given for name in listed.split(",") if name.strip()]
    if given and not names:
        raise InvalidInput(f"{','.join(given)!r} names no status")
    known = [_status(name) for name in names if name != HELD]
    is_held_wanted, is_failed_wanted = HELD in names, RunStatus.FAILED in known
    statuses = dict.fromkeys([*known, *([RunStatus.FAILED] if is_held_wanted else [])])
    return Wanted(tuple(statuses), None if is_held_wanted is is_failed_wanted else is_held_wanted)


def _status(name: str) -> RunStatus:
    try:
        return parse_status(name)
    except InvalidInput as refusal:
        raise InvalidInput(f"{refusal}, {HELD}") from None


async def _show(desk: Engine, query: RunFilter, wanted: Wanted, now: int, *, limit: int | None, output: Output) -> None:
    runs: list[RunView] = []
    shown, following = 0, ""
    async for page in _pages(desk, query, wanted, limit):
        shown, following = shown + len(page.items), page.next
        if output is Output.IDS:
            write_bytes("".join(f"{listed.summary.run}\n" for listed in page.items).encode())
        else:
            runs += await _views(desk, page)
    if output is Output.JSON:
        write_json(RunListView(runs=tuple(runs), next=following or None), pretty=True)
    elif output is Output.TABLE and runs:
        show_lines(lines_of(RunListView(runs=tuple(runs), next=None), now))
    if output is not Output.JSON:
        are = "are" if wanted.held is None else "may be"
        _remark(shown, following, f"there {are} more", is_filtered=query != RunFilter(limit=query.limit))


async def _pages(desk: Engine, query: RunFilter, wanted: Wanted, limit: int | None) -> AsyncIterator[Page]:
    """Pages until there are no more, or `limit` runs."""
    left = limit
    while left is None or left > 0:
        page = await _page(desk, query, wanted, PAGE if left is None else min(left, PAGE))
        yield page
        if not page.next:
            return
        left = None if left is None else left - len(page.items)
        query = msgspec.structs.replace(query, after=page.next)


async def _views(desk: Engine, page: Page) -> list[RunView]:
    """The runs of a page; of those at work also who holds them."""
    holders = await asyncio.gather(*(_holder(desk, listed.summary) for listed in page.items))
    return [
        run_view(listed.summary, scratch=listed.scratch, holding=holder)
        for listed, holder in zip(page.items, holders, strict=True)
    ]


async def _holder(desk: Engine, summary: RunSummary) -> Holding | None:
    return await desk.diagnostics.holder(summary.run) if summary.status in AT_WORK else None


async def _page(desk: Engine, query: RunFilter, wanted: Wanted, size: int) -> Page:
    """At most `size` runs. No store knows held runs from others that failed: those are told apart here, out of more of them;
    and if that were too many, it is asked again for only so many, so that the next page begins where this one ends."""
    if wanted.held is None:
        return await desk.list_runs(msgspec.structs.replace(query, limit=size))
    page = await desk.list_runs(msgspec.structs.replace(query, limit=PAGE))
    places = [place for place, listed in enumerate(page.items, 1) if wanted.has(listed.summary)]
    if len(places) > size:
        page = await desk.list_runs(msgspec.structs.replace(query, limit=places[size - 1]))
    return Page(tuple(listed for listed in page.items if wanted.has(listed.summary)), page.next)


def _remark(shown: int, following: str, more: str, *, is_filtered: bool) -> None:
    if following:
        notice(
            f"{counted(shown, 'run')} shown, {more}",
            f"See them with --all, with --limit {2 * shown}, or with --after {following}",
            style="bold",
        )
    elif not shown:
        notice("no run matches" if is_filtered else "the store holds no runs yet")


async def _watch(desk: Engine, query: RunFilter, wanted: Wanted, _: int, *, limit: int, output: Output) -> None:
    """The list, again and again, as much of it as the screen holds. Ctrl+C is how it ends, and no interruption."""
    from rich.console import Group

    console = screen()
    if output is not Output.TABLE:
        raise InvalidInput(f"--watch shows a table, and -o {output} is for programs: leave out one of the two")
    if not console.is_terminal:
        raise InvalidInput("--watch wants a terminal; `outlast events RUN --follow` can be piped")
    if console.is_dumb_terminal:
        raise InvalidInput(
            f"--watch wants a terminal that can be drawn on; TERM={os.environ.get('TERM', '')} says it cannot"
        )
    from rich.live import Live

    with suppress(asyncio.CancelledError), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            most = max(1, min(limit, console.size.height - 2))
            runs = [run async for page in _pages(desk, query, wanted, most) for run in await _views(desk, page)]
            shown = (
                lines_of(RunListView(runs=tuple(runs), next=None), await desk.diagnostics.now())
                if runs
                else [line("no runs")]
            )
            live.update(Group(*(rich_text(each) for each in fitted(shown, console.size.width))), refresh=True)
            await asyncio.sleep(EVERY)
