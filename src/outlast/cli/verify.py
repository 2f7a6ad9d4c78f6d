"""`outlast verify`."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from outlast.cli.console import WIDE, notice, show_view, width, write_bytes, write_json
from outlast.cli.entrypoint import SOUND, VIOLATED, command
from outlast.cli.opening import opened
from outlast.cli.options import BlobsOption, KeyFileOption, Output, OutputOption, SomeRunsArgument
from outlast.cli.progress import Ticker, each_run
from outlast.compose import read_key
from outlast.errors import InvalidInput, NotFound
from outlast.lifecycle.timeline.phrases import counted
from outlast.settings import Settings
from outlast.views.build import verification_view
from outlast.views.types import VerificationListView, VerificationView


@command
def verify(
    settings: Settings,
    runs: SomeRunsArgument = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Verify every run of the store.")] = False,
    key_file: KeyFileOption = None,
    blobs: BlobsOption = True,
    output: OutputOption = Output.TEXT,
) -> Coroutine[Any, Any, int]:
    """Verify logs: every invariant, every digest, the head and the summary.

    Digests prove accidental damage. They prove that a log was not altered only
    if it has a key, or if you compare the digest with an earlier record of it.
    With -o ids only runs with violations are listed.

    \b
    outlast verify 01a1e436-2c39
    outlast verify --all
    outlast verify --all -o json | jq '.runs[] | select(.sound | not)'
    """
    if bool(runs) == everything:
        raise InvalidInput("give either the runs to verify or --all")
    key = read_key(Path(key_file)) if key_file is not None else b""
    return _verify(settings, runs or [], key, blobs, output)


async def _verify(settings: Settings, names: list[str], key: bytes, blobs: bool, output: Output) -> int:
    ticker, runs = Ticker(), list[VerificationView]()
    async with opened(settings, signing_key=key, readonly=True) as engine:
        wanted = [await engine.find(name) for name in names]
        async for run in each_run(engine, wanted, ticker, "verifying"):
            try:
                view = verification_view(await engine.verify(run, blobs=blobs))
            except NotFound:
                if wanted:
                    raise
                continue  # removed after it was listed
            runs.append(view)
            ticker.clear()
            if output is Output.TEXT:
                show_view(view, output, wide=width() >= WIDE)
            elif output is Output.IDS and not view.sound:
                write_bytes(f"{run}\n".encode())
    unsound = sum(not each.sound for each in runs)
    if output is Output.JSON:
        write_json(VerificationListView(runs=tuple(runs), checked=len(runs), unsound=unsound), pretty=True)
    elif len(runs) != 1:
        notice(f"{counted(len(runs), 'run')} verified, {unsound or 'none'} with violations")
    return VIOLATED if unsound else SOUND
