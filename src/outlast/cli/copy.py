"""`outlast copy`: bring runs to another store, where they go on."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from outlast.address import place_of
from outlast.cli.console import notice, write_json
from outlast.cli.entrypoint import SOUND, VIOLATED, carry_out
from outlast.cli.options import Form, FormOption, settings_of
from outlast.cli.progress import Ticker
from outlast.compose import open_both, read_key
from outlast.errors import InvalidInput
from outlast.maintenance.transfer import copy_runs
from outlast.settings import Settings
from outlast.views.build import copied_view
from outlast.views.texts import counted
from outlast.views.types import CopiedRunView, CopyView


def copy(
    ctx: typer.Context,
    runs: Annotated[
        list[str] | None, typer.Argument(help="The runs: ids or beginnings of them.", metavar="[RUN]...")
    ] = None,
    target: Annotated[str, typer.Option("--to", metavar="PATH|URL", help="The store they are brought to.")] = "",
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="PATH|URL", help="The store they are in; the project's by default."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Every run of the store.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also a run that was copied to a third store: it then goes on in both.")
    ] = False,
    key_file: Annotated[
        Path | None, typer.Option(help="The key the logs were written with: all bytes of this file.", metavar="FILE")
    ] = None,
    output: FormOption = Form.TEXT,
) -> None:
    """Bring runs to another store: logs byte for byte, their blobs and definitions.

    A run that is not over is paused where it is, and goes on where it arrived;
    children that it waits for come along.
    Interrupted, the command can be given again: it goes on from where it was.

    \b
    outlast copy 01a1e436-2c39 --to postgresql://db/outlast
    outlast copy --all --from runs.db --to s3://bucket/runs
    """

    def begin() -> Coroutine[Any, Any, int]:
        if bool(runs) == everything:
            raise InvalidInput("name the runs to copy, or say --all")
        key = read_key(key_file) if key_file is not None else b""
        return _copy(settings_of(ctx, source), settings_of(ctx, target), runs or [], key, force, output)

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
