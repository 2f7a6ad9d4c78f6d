"""Builds the web page for a server that runs from a source checkout and has none."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from pathlib import Path

import outlast
from outlast.cli.console import notice
from outlast.http import page

SOURCES = Path(outlast.__file__).parents[2] / "web"
STALE_S = 600.0
"""After this time, a build that was begun has been interrupted."""


async def build_page() -> None:
    """Build the page if it is missing and its sources, Node and make are there; else say how to get it."""
    if page.is_built():
        return
    make = shutil.which("make")
    if not (SOURCES / "package.json").exists() or not shutil.which("npm") or make is None:
        notice(page.MISSING)
        return
    begun = SOURCES / ".building"
    if not _is_first(begun):
        return
    notice("building the web page, once; this takes about a minute")
    try:
        process = await asyncio.create_subprocess_exec(
            make, "--silent", "-C", str(SOURCES.parent), "web",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            os.killpg(process.pid, signal.SIGTERM)
            await process.wait()
            raise
        if process.returncode:
            last = output.decode(errors="replace").strip().splitlines()[-1:]
            notice(f"the web page could not be built; run `make web` to see why: {' '.join(last)}")
        else:
            notice("the web page is built")
    finally:
        begun.unlink(missing_ok=True)


def _is_first(begun: Path) -> bool:
    """Whether no other server builds the page now."""
    try:
        if time.time() - begun.stat().st_mtime > STALE_S:
            begun.unlink(missing_ok=True)
    except FileNotFoundError:
        pass
    try:
        os.close(os.open(begun, os.O_CREAT | os.O_EXCL))
    except OSError:
        return False
    return True
