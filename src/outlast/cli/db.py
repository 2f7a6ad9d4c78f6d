"""`outlast db info`, `outlast db backup` and `outlast db upgrade`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from outlast.cli.command import Command, group
from outlast.cli.console import notice, show_view
from outlast.cli.entrypoint import SOUND, VIOLATED, command
from outlast.cli.options import Form, FormOption
from outlast.cli.progress import Ticker
from outlast.maintenance import back_up, inspect
from outlast.maintenance import upgrade as upgrade_store
from outlast.settings import Settings
from outlast.views.build import backup_view, store_view

app = group("Inspect, back up and upgrade the store.")


@app.command(cls=Command)
@partial(command, store_only="use it where the store is")
async def info(settings: Settings, output: FormOption = Form.TEXT) -> int:
    """Show the size, version, runs, blobs and workers of the store.

    \b
    outlast db info
    outlast db info -o json | jq .runs.failed
    """
    show_view(store_view(await inspect(settings)), output)
    return SOUND


@app.command(cls=Command)
@partial(command, store_only="use it where the store is")
async def upgrade(settings: Settings) -> int:
    """Bring the schema of a store that an older Outlast wrote to this version.

    Stop the processes that use the store first. Runs continue where they were.

    \b
    outlast db upgrade --store postgresql://me@db.internal/app
    """
    before, now = await upgrade_store(settings)
    if before == now:
        notice(f"the store has version {now}: there is nothing to upgrade")
    else:
        notice(f"the store was upgraded from version {before} to version {now}", style="bold")
    return SOUND


@app.command(cls=Command)
@partial(command, store_only="use it where the store is")
async def backup(
    settings: Settings,
    dest: Annotated[str, typer.Argument(help="File to create. Its blobs are copied beside it.", metavar="DEST")],
    output: FormOption = Form.TEXT,
) -> int:
    """Copy the database and its blobs. Runs can continue meanwhile.

    The copy is a complete store. It replaces no file, and it appears only after
    all of it is durable and was opened as a test.

    \b
    outlast db backup copies/monday.db
    outlast db backup copies/monday.db && outlast verify --all --store copies/monday.db
    """
    ticker = Ticker()
    try:
        copied = await back_up(settings, dest, lambda what, done, of: ticker.show(_progress(what, done, of)))
    finally:
        ticker.clear()
    show_view(backup_view(copied), output)
    for blob in copied.damaged:
        notice(f"blob {blob} is damaged in the store; the backup has the damaged copy", style="red")
    for blob in copied.missing:
        notice(f"blob {blob} is missing in the store; a log refers to it", style="red")
    return VIOLATED if copied.damaged or copied.missing else SOUND


def _progress(what: str, done: int, of: int) -> str:
    return f"copying the {what}: {100 * done // max(1, of)} %"
