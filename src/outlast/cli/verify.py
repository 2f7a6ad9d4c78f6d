"""`outlast verify`: whether a log can be believed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from outlast.cli.console import WIDE, notice, show_lines, width, write_bytes, write_json
from outlast.cli.entrypoint import SOUND, VIOLATED, carry_out
from outlast.cli.options import Output, OutputOption, StoreOption, settings_of
from outlast.cli.progress import Ticker
from outlast.client import Engine, Verification
from outlast.compose import open_desk, read_key
from outlast.errors import InvalidInput, NotFound
from outlast.history.ids import RunId
from outlast.settings import Settings
from outlast.views.build import verification_view
from outlast.views.text import lines_of
from outlast.views.texts import counted
from outlast.views.types import VerificationListView, VerificationView


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
    outlast verify 01a1e436-2c39
    outlast verify --all
    outlast verify --all -o json | jq '.runs[] | select(.sound | not)'
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
    runs: list[VerificationView] = []
    checked = unsound = 0
    wide = width() >= WIDE
    async for found in verifications:
        checked, unsound = checked + 1, unsound + (not found.is_sound)
        if output is Output.JSON:
            runs.append(verification_view(found))
        elif output is Output.TABLE:
            show_lines(lines_of(verification_view(found), 0, wide=wide))
        elif not found.is_sound:
            write_bytes(f"{found.run}\n".encode())
    if output is Output.JSON:
        write_json(VerificationListView(runs=tuple(runs), checked=checked, unsound=unsound), pretty=True)
    elif checked != 1:
        notice(f"{counted(checked, 'run')} verified, {unsound or 'none'} with violations")
    return VIOLATED if unsound else SOUND
