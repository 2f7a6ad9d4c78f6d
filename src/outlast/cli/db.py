"""`outlast db`: the store as a whole: how it stands, a copy of it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from outlast.cli.command import Command, Group
from outlast.cli.console import notice, screen, show_columns, write_json
from outlast.cli.entrypoint import SOUND, VIOLATED, carry_out
from outlast.cli.json_views import copy_shape, info_shape
from outlast.cli.options import Form, FormOption, StoreOption, settings_of
from outlast.cli.progress import Ticker
from outlast.cli.texts import counted, plain
from outlast.maintenance import Copied, Info, back_up, inspect
from outlast.settings import Settings

app = typer.Typer(cls=Group, no_args_is_help=True, help="Look after the store: how it stands, a copy of it.")


@app.command(cls=Command)
def info(ctx: typer.Context, store: StoreOption = None, output: FormOption = Form.TEXT) -> None:
    """Show how the store stands: size, version, runs, blobs, workers.

    \b
    [dim]outlast db info
    outlast db info -o json | jq .runs.failed[/dim]
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
    [dim]outlast db backup copies/monday.db
    outlast db backup copies/monday.db && outlast verify --all --store copies/monday.db[/dim]
    """
    carry_out(lambda: _backup(settings_of(ctx, store), dest, output))


# --- how it stands


async def _info(settings: Settings, output: Form) -> int:
    found = await inspect(settings)
    if output is Form.JSON:
        write_json(info_shape(found), pretty=True)
    else:
        show_info(found)
    return SOUND


def show_info(found: Info) -> None:
    """One line per question."""
    runs = ", ".join(f"{count} {plain(status)}" for status, count in found.runs.items())
    live = sum(worker.is_live for worker in found.workers)
    gone = len(found.workers) - live
    lines = {
        "path": plain(str(found.path)),
        "size": size(found.bytes) + (f", and {size(found.wal_bytes)} of WAL" if found.wal_bytes else ""),
        "schema": str(found.schema),
        found.kind: found.library,
        "runs": f"{sum(found.runs.values())}" + (f": {runs}" if runs else ""),
        "blobs": f"{found.blob_count}, {size(found.blob_bytes)} in {plain(str(found.blobs))}",
        "workers": f"{live} alive" + (f", {gone} gone" if gone else ""),
    }
    show_columns(screen(), [(Text(name, style="cyan"), Text(line)) for name, line in lines.items()])


def size(count: int) -> str:
    """Bytes for people."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}" if unit != "bytes" else counted(count, "byte")
        amount /= 1000
    return f"{amount:,.1f} TB"


# --- a copy


async def _backup(settings: Settings, dest: str, output: Form) -> int:
    ticker = Ticker()
    try:
        copied = await back_up(settings, dest, lambda what, done, of: ticker.show(_progress(what, done, of)))
    finally:
        ticker.clear()
    if output is Form.JSON:
        write_json(copy_shape(copied), pretty=True)
    else:
        _show_copy(copied)
    for blob in copied.damaged:
        notice(f"blob {blob} was damaged before, and was copied as it is", style="red")
    for blob in copied.missing:
        notice(f"blob {blob} is named by a log and is not there", style="red")
    return VIOLATED if copied.damaged or copied.missing else SOUND


def _progress(what: str, done: int, of: int) -> str:
    return f"copying the {what}: {100 * done // max(1, of)} %"


def _show_copy(copied: Copied) -> None:
    blobs = counted(copied.blob_count, "blob")
    _say(f"{copied.path}: {counted(copied.runs, 'run')}, {size(copied.bytes)}, and {blobs}, {size(copied.blob_bytes)}")


def _say(line: str) -> None:
    screen().print(Text(plain(line)), soft_wrap=True)
