"""`outlast copy`."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from outlast.address import place_of
from outlast.cli.console import notice, write_json
from outlast.cli.entrypoint import SOUND, VIOLATED, carry_out
from outlast.cli.options import Form, FormOption, KeyFileOption, SomeRunsArgument, settings_of, store_settings_of
from outlast.cli.progress import Ticker
from outlast.compose import open_both, read_key
from outlast.errors import InvalidInput
from outlast.lifecycle.timeline.phrases import counted
from outlast.maintenance.transfer import copy_runs
from outlast.settings import Settings
from outlast.views.build import copied_view
from outlast.views.types import CopiedRunView, CopyView

WHY = "name both stores with --from and --to"


def copy(
    ctx: typer.Context,
    target: Annotated[str, typer.Option("--to", metavar="PATH|URL", help="Store to copy to.")],
    runs: SomeRunsArgument = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="PATH|URL", help="Store to copy from (default: the store of the project)."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Copy every run of the store.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Copy a run again that was copied to a third store; it then continues in both."),
    ] = False,
    key_file: KeyFileOption = None,
    output: FormOption = Form.TEXT,
) -> None:
    """Copy runs to another store: their logs, byte for byte, blobs and definitions.

    An unfinished run is paused in its old store and continues in the new one.
    Children that it waits for are copied too. You can repeat an interrupted
    command: it continues.

    \b
    outlast copy 01a1e436-2c39 --to postgresql://db/outlast
    outlast copy --all --from runs.db --to s3://bucket/runs
    """

    def begin() -> Coroutine[Any, Any, int]:
        if bool(runs) == everything:
            raise InvalidInput("give either the runs to copy or --all")
        key = read_key(Path(key_file)) if key_file is not None else b""
        return _copy(
            store_settings_of(ctx, WHY, store=source), settings_of(ctx, target), runs or [], key, force, output
        )

    carry_out(begin)


async def _copy(source: Settings, target: Settings, names: list[str], key: bytes, force: bool, form: Form) -> int:
    ticker, copied = Ticker(), list[CopiedRunView]()
    async with open_both(source, target, signing_key=key) as (here, there, stores):
        runs = [await here.find(name) for name in names] or None
        place = place_of(target.store)
        async for moved in copy_runs(here, there, stores, runs, place=place, key=key, force=force):
            ticker.clear()
            copied.append(copied_view(moved))
            if moved.how == "not copied":
                notice(f"run {moved.run}: not copied: {moved.why}", style="red")
                continue
            what = f"{counted(moved.events, 'event')} and {counted(moved.blobs, 'blob')}"
            notice(f"run {moved.run}: {what} copied, {moved.how}")
            ticker.show(f"{counted(len(copied), 'run')} copied")
    ticker.clear()
    left = sum(each.outcome == "not copied" for each in copied)
    count = len(copied) - left
    if form is Form.JSON:
        write_json(CopyView(runs=tuple(copied), copied=count, left=left), pretty=True)
    notice(f"{counted(count, 'run')} copied{f', {left} not' if left else ''}", style="bold")
    return VIOLATED if left else SOUND
