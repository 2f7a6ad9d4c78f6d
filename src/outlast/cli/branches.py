"""`outlast branches`: the branches of a run as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from outlast.cli.console import is_wide, screen, show_columns, write_bytes, write_json
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.options import Output, OutputOption, RunArgument, StoreOption, settings_of
from outlast.cli.texts import COLOURS, counted, cropped
from outlast.cli.times import iso, local
from outlast.compose import open_desk
from outlast.lifecycle.branching import BranchSummary
from outlast.settings import Settings


def branches(
    ctx: typer.Context, run: RunArgument, store: StoreOption = None, output: OutputOption = Output.TABLE
) -> None:
    """Show the branches of a run as a tree.

    Going back opens a branch; what was done before stays readable on the branch it was done on.
    The current branch has a star. With -o ids each branch is one line, RUN@BRANCH.

    \b
    [dim]outlast branches 01a1e436-2c39
    outlast explain 01a1e436-2c39@0[/dim]
    """
    carry_out(lambda: _branches(settings_of(ctx, store), run, output))


async def _branches(settings: Settings, name: str, output: Output) -> int:
    async with open_desk(settings, readonly=True) as desk:
        run = await desk.find(name)
        found = await desk.branches(run)
    if output is Output.JSON:
        write_json({"run": run, "branches": [branch_shape(each) for each in found]}, pretty=True)
    elif output is Output.IDS:
        write_bytes("".join(f"{run}@{each.branch}\n" for each in found).encode())
    else:
        show_tree(screen(), found)
    return SOUND


def show_tree(console: Console, found: Sequence[BranchSummary]) -> None:
    """One line per branch, under its parent."""
    rows = [(Text("branch", "bold"), *(Text(each, "bold") for each in ("events", "opened", "ended", "why")))]
    rows += [_row(console, guide, each) for guide, each in tree(found)]
    show_columns(console, rows)


def tree(found: Sequence[BranchSummary]) -> Iterator[tuple[str, BranchSummary]]:
    """Each branch with the lines that lead to it, children below their parents in the order they opened."""
    below: dict[int | None, list[BranchSummary]] = {}
    for each in found:
        below.setdefault(each.parent, []).append(each)
    pending = [("", "", each) for each in reversed(below.get(None, []))]
    while pending:
        lead, guide, each = pending.pop()
        yield guide, each
        children = below.get(each.branch, [])
        for child in reversed(children):
            is_last = child is children[-1]
            pending.append((lead + ("   " if is_last else "│  "), lead + ("└─ " if is_last else "├─ "), child))


def _row(console: Console, guide: str, each: BranchSummary) -> tuple[Text, ...]:
    style = "bold" if each.is_current else ""
    label = Text.assemble((guide, "dim"), (f"{each.branch}{' *' if each.is_current else ''}", style or "cyan"))
    events = f"{each.first}–{each.last}" if each.last > each.first else f"{each.first}"
    opened = local(each.opened, full=is_wide(console))
    if each.parent is not None:
        opened += f", after event {each.cutoff}" if each.cutoff else ", from the start"
    who = " by ".join(filter(None, (each.cause, cropped(each.by, 40))))
    why = ": ".join(filter(None, (who, cropped(each.reason, 80)))) or "the start of the run"
    return (
        label,
        Text(f"{events}, {counted(each.nodes, 'node')} done"),
        Text(opened),
        Text(standing(each), style=COLOURS[each.status]),
        Text(why),
    )


def standing(each: BranchSummary) -> str:
    """How it ended, or that it was left."""
    status = "held" if each.is_held else str(each.status)
    is_open = each.status.value in ("created", "running", "paused", "compensating")
    return f"left while {status}" if is_open and not each.is_current else status


def branch_shape(each: BranchSummary) -> dict[str, Any]:
    return {
        "branch": each.branch,
        "current": each.is_current,
        "parent": each.parent,
        "cutoff": each.cutoff,
        "cause": each.cause or None,
        "by": each.by or None,
        "reason": each.reason or None,
        "opened": iso(each.opened),
        "last_event": iso(each.ended),
        "first": each.first,
        "last": each.last,
        "events": each.events,
        "nodes": each.nodes,
        "status": each.status,
        "held": each.is_held,
    }
