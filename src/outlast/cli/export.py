"""`outlast export`: runs as text, to be kept in a repository and replayed by tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from outlast.cli.doorway import SOUND, carry_out
from outlast.cli.options import RunsArgument, StoreOption, settings_of
from outlast.cli.screen import notice, write_bytes
from outlast.cli.words import counted
from outlast.client import Reader
from outlast.compose import open_settled
from outlast.errors import BadInput, StoreError
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
        missing = 0
        with _output(to) as write:
            for run in runs:
                async for line in exported(store, run):
                    missing += line.endswith(b'"missing":true}')
                    write(line + b"\n")
    finally:
        await store.close()
    if missing:
        notice(
            f"outlast: {counted(missing, 'large value')} could not be found, and the export lacks them", style="yellow"
        )
    return SOUND


@contextmanager
def _output(to: Path | None) -> Iterator[Callable[[bytes], object]]:
    """What writes a line. A file is there when all of it is written, or not at all."""
    if to is None:
        yield write_bytes
        return
    part = to.with_name(f".{to.name[:100]}.part-{os.getpid()}")
    file = _opened(to, part)

    def write(line: bytes) -> None:
        with _told(to):
            file.write(line)

    try:
        yield write
        with _told(to):
            file.flush()
            os.fsync(file.fileno())
            _put_in_place(part, to)
    finally:
        with suppress(OSError):  # what could not be written is gone in any case
            file.close()
        part.unlink(missing_ok=True)


def _opened(to: Path, part: Path) -> BinaryIO:
    try:
        if os.path.lexists(to):
            raise FileExistsError("it is there already, and nothing is replaced")
        return part.open("xb")
    except (OSError, ValueError) as error:
        raise BadInput(f"could not write to {str(to)!r}: {error}") from error


@contextmanager
def _told(to: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"could not write to {str(to)!r}: {error.strerror}; nothing is left of it") from error


def _put_in_place(part: Path, to: Path) -> None:
    """Give it its name, unless somebody has come first."""
    try:
        os.link(part, to)
    except FileExistsError as error:
        raise BadInput(f"could not write to {str(to)!r}: it is there by now, and nothing is replaced") from error
    except OSError:  # not every disk has links
        part.rename(to)
