"""The workflow of the demo: read a folder of Markdown, count its words, check its links, publish a page."""

from __future__ import annotations

import html
import os
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import outlast as ol


@dataclass
class Page:
    path: str
    words: int
    headings: list[str]
    common: dict[str, int]


@dataclass
class Report:
    pages: int
    words: int
    broken_links: list[str]
    most_common: list[str]
    published: str


@ol.node
async def find(folder: str) -> list[Path]:
    """The files of the folder."""
    _note("find")
    return sorted(Path(folder).rglob("*.md"))


@ol.node
def read(path: Path) -> Page:
    """One file. A plain function runs in a thread."""
    _note(f"read {path.name}")
    time.sleep(0.15)  # long enough to be interrupted
    text = path.read_text()
    words = re.findall(r"[a-z]{4,}", text.lower())
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return Page(str(path), len(words), headings, dict(Counter(words).most_common(50)))


@ol.node(retry=ol.Retry(max_attempts=3, delay=0.2, retry_on=ConnectionError))
def check_links(path: Path) -> list[str]:
    """Links to missing files. For every third file the first attempt fails like a network, and is retried."""
    _note(f"check {path.name}")
    time.sleep(0.1)
    if ol.context().attempt == 1 and int(path.stem.removeprefix("page-")) % 3 == 0:
        raise ConnectionError(f"could not look up the links of {path.name}")
    links = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text())
    return [f"{path.name}: {link}" for link in links if not (path.parent / link).exists()]


@ol.node(repeatable=False)
async def publish(title: str, lines: list[str], target: str) -> str:
    """Write the page. If this is interrupted, a person decides whether it may be repeated."""
    _note("publish")
    body = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    Path(target).write_text(f"<h1>{html.escape(title)}</h1><ul>{body}</ul>\n")
    return target


@ol.workflow
async def report(folder: str, target: str) -> Report:
    """Read and check all files, six at a time, then publish."""
    paths = await find(folder)
    async with ol.step("read"):
        pages = await ol.map(read, paths, concurrency=6)
    async with ol.step("check"):
        broken = [link for links in await ol.map(check_links, paths, concurrency=6) for link in links]
    common: Counter[str] = Counter()
    for page in pages:
        common.update(page.common)
    words = [word for word, _ in common.most_common(8)]
    lines = [f"{Path(page.path).name}: {page.words} words, {len(page.headings)} headings" for page in pages]
    published = await publish(f"{len(pages)} pages", lines, target)
    return Report(len(pages), sum(page.words for page in pages), broken, words, published)


def _note(what: str) -> None:
    """Append a line to a file outside the store for every execution, so that the demo can count them."""
    handle = os.open(os.environ["DEMO_EXECUTIONS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{what}\n".encode())
    os.close(handle)
