"""`outlast db`: the store as a whole: how it stands, a copy of it."""

from __future__ import annotations

from typing import Annotated

import typer

from outlast.cli.command import Command, group
from outlast.cli.console import notice, show_lines, write_json
from outlast.cli.entrypoint import SOUND, VIOLATED, carry_out
from outlast.cli.options import Form, FormOption, StoreOption, settings_of
from outlast.cli.progress import Ticker
from outlast.maintenance import back_up, inspect
from outlast.settings import Settings
from outlast.views.build import backup_view, store_view
from outlast.views.text import lines_of
from outlast.views.types import View

app = group("Look after the store: how it stands, a copy of it.")


@app.command(cls=Command)
def info(ctx: typer.Context, store: StoreOption = None, output: FormOption = Form.TEXT) -> None:
    """Show how the store stands: size, version, runs, blobs, workers.

    \b
    outlast db info
    outlast db info -o json | jq .runs.failed
    """
    carry_out(lambda: _info(settings_of(ctx, store), output))


@app.command(cls=Command)
def backup(
    ctx: typer.Context,
    dest: Annotated[str, typer.Argument(help="The file to make; its blobs go beside it.", metavar="DEST")],
    store: StoreOption = None,
    output: FormOption = Form.TEXT,
) -> None:
    """Copy the database and its blobs, also while runs go on.

    The copy is a store by itself. It replaces nothing, and is there only
    when all of it is durable and was opened again.

    \b
    outlast db backup copies/monday.db
    outlast db backup copies/monday.db && outlast verify --all --store copies/monday.db
    """
    carry_out(lambda: _backup(settings_of(ctx, store), dest, output))


# --- how it stands


async def _info(settings: Settings, output: Form) -> int:
    _show(store_view(await inspect(settings)), output)
    return SOUND


def _show(view: View, output: Form) -> None:
    if output is Form.JSON:
        write_json(view, pretty=True)
    else:
        show_lines(lines_of(view, 0))


# --- a copy


async def _backup(settings: Settings, dest: str, output: Form) -> int:
    ticker = Ticker()
    try:
        copied = await back_up(settings, dest, lambda what, done, of: ticker.show(_progress(what, done, of)))
    finally:
        ticker.clear()
    _show(backup_view(copied), output)
    for blob in copied.damaged:
        notice(f"blob {blob} was damaged before, and was copied as it is", style="red")
    for blob in copied.missing:
        notice(f"blob {blob} is named by a log and is not there", style="red")
    return VIOLATED if copied.damaged or copied.missing else SOUND


def _progress(what: str, done: int, of: int) -> str:
    return f"copying the {what}: {100 * done // max(1, of)} %"
