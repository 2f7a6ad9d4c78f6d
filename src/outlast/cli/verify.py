"""`outlast verify`: whether a log can be believed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from outlast.cli.console import is_wide, notice, screen, write_bytes, write_json
from outlast.cli.entrypoint import SOUND, VIOLATED, carry_out
from outlast.cli.json_views import verification_shape
from outlast.cli.options import Output, OutputOption, StoreOption, settings_of
from outlast.cli.progress import Ticker
from outlast.cli.texts import counted, cropped, plain, short_ids
from outlast.client import Engine, Verification
from outlast.compose import open_desk, read_key
from outlast.errors import InvalidInput, NotFound
from outlast.history.ids import RunId
from outlast.settings import Settings

SHOWN = 20
"""Violations printed per run; JSON has all of them."""


def verify(
    ctx: typer.Context,
    runs: Annotated[list[str] | None, typer.Argument(help="Runs: ids or beginnings of them.", metavar="RUN")] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Every run of the store.")] = False,
    key_file: Annotated[
        Path | None, typer.Option(help="The key the log was written with: all bytes of this file.", metavar="FILE")
    ] = None,
    blobs: Annotated[
        bool, typer.Option("--blobs/--no-blobs", help="Whether to hold the content of blobs against their hashes.")
    ] = True,
    store: StoreOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Prove logs: every invariant, every digest, the head and the summary.

    Digests prove damage. They prove tampering only with the key of the log,
    or if the digest shown here was written down elsewhere before.
    With -o ids only runs that have violations are named.

    \b
    [dim]outlast verify 01a1e436-2c39
    outlast verify --all
    outlast verify --all -o json | jq '.runs[] | select(.sound | not)'[/dim]
    """

    def begin() -> Coroutine[Any, Any, int]:
        if bool(runs) == everything:
            raise InvalidInput("name the runs to verify, or say --all")
        key = read_key(key_file) if key_file is not None else b""
        return _verify(settings_of(ctx, store), runs or [], key, blobs, output)

    carry_out(begin)


async def _verify(settings: Settings, names: list[str], key: bytes, blobs: bool, output: Output) -> int:
    async with open_desk(settings, signing_key=key, readonly=True) as desk:
        wanted = [await desk.find(name) for name in names]
        return await _report(_verifications(desk, wanted or None, blobs), output)


async def _verifications(desk: Engine, wanted: list[RunId] | None, blobs: bool) -> AsyncIterator[Verification]:
    """One after the other, with a line that says how far we are."""
    ticker = Ticker()
    done = 0
    try:
        async for run in _runs(desk, wanted):
            total = f" of {len(wanted)}" if wanted else ""
            ticker.show(f"verifying run {done + 1}{total}: {run}")
            try:
                found = await desk.verify(run, blobs=blobs)
            except NotFound:
                if wanted is not None:
                    raise
                continue  # removed since it was listed
            done += 1
            ticker.clear()
            yield found
    finally:
        ticker.clear()


async def _runs(desk: Engine, wanted: list[RunId] | None) -> AsyncIterator[RunId]:
    if wanted is not None:
        for run in wanted:
            yield run
        return
    async for run in desk.diagnostics.run_ids():
        yield run


async def _report(verifications: AsyncIterator[Verification], output: Output) -> int:
    shapes = []
    checked = unsound = 0
    console = screen()
    async for found in verifications:
        checked, unsound = checked + 1, unsound + (not found.is_sound)
        if output is Output.JSON:
            shapes.append(verification_shape(found))
        elif output is Output.TABLE:
            show_verification(console, found)
        elif not found.is_sound:
            write_bytes(f"{found.run}\n".encode())
    if output is Output.JSON:
        write_json({"runs": shapes, "checked": checked, "unsound": unsound}, pretty=True)
    elif checked != 1:
        notice(f"{counted(checked, 'run')} verified, {unsound or 'none'} with violations")
    return VIOLATED if unsound else SOUND


def show_verification(console: Console, found: Verification) -> None:
    """One line if all is well, and one more for each violation if not."""
    wide = is_wide(console)
    run = found.run if wide else short_ids([found.run], least=18)[found.run]
    counts = ", ".join(
        [
            counted(found.events, "event"),
            counted(found.appends, "append"),
            counted(found.branches, "branch", "branches"),
        ]
    )
    verdict = ("ok   ", "bold green") if found.is_sound else ("BAD  ", "bold red")
    digest = found.digest if wide else found.digest[:8]
    ident = (f"{plain(run):<{36 if wide else 18}}", "cyan")
    console.print(Text.assemble(verdict, ident, f"  {counts}, digest {digest or 'none'}"), soft_wrap=True)
    for violation in found.violations[:SHOWN]:
        place = f" at event {violation.seq}" if violation.seq else ""
        line = Text.assemble("     ", (f"{violation.invariant}{place}", "red"), f": {cropped(violation.message)}")
        console.print(line, soft_wrap=True)
    if len(found.violations) > SHOWN:
        console.print(f"     and {len(found.violations) - SHOWN} more, all of them with -o json", soft_wrap=True)
    if any(v.seq == 1 and v.invariant == "V1" and "digest" in v.message for v in found.violations):
        console.print("     the very first digest differs: written with another key? (--key-file)", soft_wrap=True)
