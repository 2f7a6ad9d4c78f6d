"""`outlast export`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from outlast.atomic_file import atomic_file
from outlast.cli.console import notice, write_bytes
from outlast.cli.entrypoint import SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import RunsArgument
from outlast.errors import InvalidInput, StoreError
from outlast.lifecycle.timeline.phrases import counted
from outlast.settings import Settings
from outlast.views.detail import exported


@command
async def export(
    settings: Settings,
    runs: RunsArgument,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="New file to write to (default: stdout).")
    ] = None,
) -> int:
    """Write runs, with all their branches and values, as JSON lines.

    Tests can replay them with the current code: replay_check("runs/*.jsonl").
    The lines contain the parameters and results of nodes: check them for
    confidential data before you share them.

    \b
    outlast export 01a1e436-2c39 --to tests/histories/order.jsonl
    outlast export order-1 order-2 > tests/histories/orders.jsonl
    """
    async with opened(settings, readonly=True) as engine:
        found = [await engine.find(name) for name in runs]
        missing = 0
        with _output(to) as write:
            for each in found:
                async for line in exported(engine, each):
                    missing += line.endswith(b'"missing":true}')
                    write(line + b"\n")
    if missing:
        notice(f"outlast: the export lacks {counted(missing, 'large value')} that the store lost", style="yellow")
    return SOUND


@contextmanager
def _output(to: Path | None) -> Iterator[Callable[[bytes], object]]:
    """A function that writes a line. The file appears after all of it is written, or not at all."""
    if to is None:
        yield write_bytes
        return
    try:
        with atomic_file(to) as file:
            yield file.write
    except FileExistsError:
        raise InvalidInput(f"could not write to {str(to)!r}: the file exists") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(f"could not write to {str(to)!r}: {reason}; the partial file was removed") from error
