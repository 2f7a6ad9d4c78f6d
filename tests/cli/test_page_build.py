"""A server in a source checkout builds the page that it has not got, once, and says what it does."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from outlast.cli import page_build
from outlast.http import page


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source checkout, with an `npm` on the path."""
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "package.json").write_text("{}")
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text("#!/bin/sh\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{npm.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(page_build, "SOURCES", tmp_path / "web")
    monkeypatch.setattr(page, "FOLDER", tmp_path / "page")
    return tmp_path


def makes(checkout: Path, recipe: str) -> None:
    (checkout / "Makefile").write_text(f".PHONY: web\nweb:\n\t@{recipe}\n")


BUILDS = "mkdir -p page && echo built >> built.txt && echo '<head>' > page/index.html"


async def test_the_missing_page_is_built_once(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    makes(checkout, BUILDS)
    await asyncio.gather(*(page_build.build_page() for _ in range(3)))
    await page_build.build_page()
    assert page.is_built()
    assert (checkout / "built.txt").read_text() == "built\n"
    assert capsys.readouterr().err == "building the web page, once; this takes about a minute\nthe web page is built\n"


async def test_a_build_that_was_interrupted_long_ago_is_no_obstacle(checkout: Path) -> None:
    makes(checkout, BUILDS)
    begun = checkout / "web" / ".building"
    begun.touch()
    await page_build.build_page()
    assert not page.is_built()
    os.utime(begun, (1, 1))
    await page_build.build_page()
    assert page.is_built()


async def test_a_build_that_fails_says_so_in_one_line(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    makes(checkout, "echo 'a module is missing'; exit 3")
    await page_build.build_page()
    assert "run `make web` to see why" in capsys.readouterr().err.splitlines()[1]
    assert not (checkout / "web" / ".building").exists()


async def test_a_server_that_ends_ends_its_build(checkout: Path) -> None:
    os.mkfifo(checkout / "held")
    held = os.open(checkout / "held", os.O_RDONLY | os.O_NONBLOCK)
    makes(checkout, "(sleep 300; true) > held & touch begun; wait")
    building = asyncio.create_task(page_build.build_page())
    while not (checkout / "begun").exists():
        await asyncio.sleep(0.01)
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert not (checkout / "web" / ".building").exists()
    while _is_held(held):
        await asyncio.sleep(0.01)
    os.close(held)


def _is_held(pipe: int) -> bool:
    """Whether a process could still write into it."""
    try:
        return os.read(pipe, 1) != b""
    except BlockingIOError:
        return True


@pytest.mark.parametrize("missing", ["npm", "sources"])
async def test_without_node_or_sources_it_says_how_to_get_the_page(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    if missing == "npm":
        monkeypatch.setenv("PATH", str(checkout / "none"))
    else:
        shutil.rmtree(checkout / "web")
    await page_build.build_page()
    assert capsys.readouterr().err == f"{page.MISSING}\n"
