"""`outlast export`: runs as text, to be kept in a repository and replayed by tests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from outlast.cli.doorway import SOUND, carry_out
from outlast.cli.options import RunsArgument, StoreOption, settings_of
from outlast.cli.screen import notice, write_bytes
from outlast.cli.words import counted
from outlast.client import Reader
from outlast.compose import open_settled
from outlast.errors import BadInput
from outlast.settings import Settings
from outlast.upkeep import exported


def export(
    ctx: typer.Context,
    runs: RunsArgument,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write to this file, which must not be there yet.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Write out runs, with all their branches and values, as lines of JSON.

    The tests of a project can replay them with the code of the day: replay_check("runs/*.jsonl").
    What runs were given and what nodes returned is in it: look at it before you share it.

    \b
    [dim]outlast export 01a1e436-2c39 --to tests/histories/order.jsonl
    outlast export order-1 order-2 > tests/histories/orders.jsonl[/dim]
    """
    carry_out(lambda: _export(settings_of(ctx, store), runs, to))


async def _export(settings: Settings, names: list[str], to: Path | None) -> int:
    store = open_settled(settings, readonly=True)
    try:
        reader = Reader(store)
        runs = [await reader.find(name) for name in names]
        file = _opened(to)
        try:
            missing = 0
            for run in runs:
                async for line in exported(store, run):
                    missing += line.endswith(b'"missing":true}')
                    _write(file, line + b"\n")
        finally:
            if file is not None:
                file.close()
    finally:
        await store.close()
    if missing:
        notice(
            f"outlast: {counted(missing, 'large value')} could not be found, and the export lacks them", style="yellow"
        )
    return SOUND


def _opened(to: Path | None) -> BinaryIO | None:
    try:
        return None if to is None else to.open("xb")
    except (OSError, ValueError) as error:
        raise BadInput(f"could not write to {str(to)!r}: {error}") from error


def _write(file: BinaryIO | None, line: bytes) -> None:
    if file is None:
        write_bytes(line)
    else:
        file.write(line)
