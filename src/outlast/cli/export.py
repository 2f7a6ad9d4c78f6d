"""`outlast export`: runs as text, to be kept in a repository and replayed by tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from outlast.atomic_file import atomic_file
from outlast.cli.console import notice, write_bytes
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.options import RunsArgument, StoreOption, settings_of
from outlast.client import Reader
from outlast.compose import open_settled
from outlast.errors import InvalidInput, StoreError
from outlast.maintenance import exported
from outlast.settings import Settings
from outlast.views.texts import counted


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
    outlast export 01a1e436-2c39 --to tests/histories/order.jsonl
    outlast export order-1 order-2 > tests/histories/orders.jsonl
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
    try:
        with atomic_file(to) as file:
            yield file.write
    except FileExistsError:
        raise InvalidInput(f"could not write to {str(to)!r}: it is there, and nothing is replaced") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(f"could not write to {str(to)!r}: {reason}; nothing is left of it") from error
