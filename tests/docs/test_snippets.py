"""What the documentation shows is what happens: the python and console blocks of every page run.

A page is read like a notebook, in a folder of its own, block after block:

    python title="flows.py"   is written to that file
    python                    runs; the blocks of a page share one interpreter
    console                   each line with `$ ` is typed in a shell; what stands below it is what it prints
    text title="Output"       is what the python block before it printed
    <!-- not run: why -->     before a block excuses it

A page that speaks of `DATABASE_URL` has a real PostgreSQL there, one that speaks of `BUCKET_URL` a real S3 server.

What is shown may leave things out: `…` stands for anything, and space is space. A command that shows nothing has to succeed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import NamedTuple

import pytest

from support import commands
from support.servers import s3

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PATIENCE = 600
"""Seconds until a block that does not end is given up; what is shown does not depend on it."""
MOST_EXCUSED = 2
"""Blocks that may go without being run, in all pages together."""

FENCE = re.compile(
    r"(?:<!-- not run: (?P<excuse>[^>]+) -->\n)?^ *```(?P<kind>\w+)(?P<info>[^\n]*)\n(?P<body>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
TITLE = re.compile(r'title="([^"]+)"')

INTERPRETER = """
import contextlib, io, json, sys, traceback
answers, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    printed, trouble = io.StringIO(), ""
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(json.loads(line), "<the page>", "exec"), globals())
    except BaseException:
        trouble = traceback.format_exc()
    print(json.dumps([printed.getvalue(), trouble]), file=answers, flush=True)
"""


class Block(NamedTuple):
    kind: str
    title: str
    body: str
    excuse: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = []
    for match in FENCE.finditer(text):
        title = TITLE.search(match["info"])
        line = text.count("\n", 0, match.start("kind")) + 1
        found.append(Block(match["kind"], title[1] if title else "", match["body"], match["excuse"] or "", line))
    return found


def is_run(block: Block) -> bool:
    return block.kind in ("python", "console")


PAGES = [page for page in sorted(DOCS.rglob("*.md")) if any(map(is_run, blocks(page)))]


def surroundings() -> dict[str, str]:
    """As a newcomer has them: nothing set, and our programs on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OUTLAST_", "PYTHON", "PYTEST_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return {**kept, "PATH": path, "PIP_NO_INDEX": "1", "COLUMNS": "400", "PYTEST_ADDOPTS": commands.PYTEST_OF_A_USER}


class Notebook:
    """The folder of a page, and the interpreter its blocks share."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._folder = folder
        self._surroundings = {**surroundings(), **variables}
        self._programs, self._passed = commands.programs(folder.with_name(f"{folder.name}-programs"))
        self._interpreter: subprocess.Popen[str] | None = None
        self._printed = ""

    def write(self, name: str, body: str) -> None:
        place = self._folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(body)

    def execute(self, code: str) -> None:
        if self._interpreter is None:
            self._interpreter = commands.Popen(
                [sys.executable, "-c", INTERPRETER],
                cwd=self._folder,
                env=self._surroundings,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self._interpreter.stdin is not None
        assert self._interpreter.stdout is not None
        self._interpreter.stdin.write(json.dumps(code) + "\n")
        self._interpreter.stdin.flush()
        impatience = Timer(PATIENCE, self._interpreter.kill)
        impatience.start()
        answer = self._interpreter.stdout.readline()
        impatience.cancel()
        assert answer, "the interpreter died, or took too long"
        self._printed, trouble = json.loads(answer)
        assert not trouble, trouble

    def must_have_printed(self, shown: str) -> None:
        must_match(shown, self._printed)

    def type(self, session: str) -> None:
        """What stands below a command is what it prints, to its end."""
        for command, shown in typed(session):
            ran = subprocess.run(
                ["bash", "-c", command],
                cwd=self._folder,
                env={**self._surroundings, **self._programs},
                pass_fds=self._passed,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
            assert ran.returncode == 0, f"$ {command}\nexit code {ran.returncode}\n{ran.stdout}{ran.stderr}"
            if shown.strip():
                must_match(shown, ran.stdout + ran.stderr)

    def close(self) -> None:
        if self._interpreter is not None:
            self._interpreter.communicate(timeout=PATIENCE)


def typed(session: str) -> Iterator[tuple[str, str]]:
    """Commands, each with what is shown below it; a line that ends with a backslash goes on in the next one."""
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, shown = re.sub(r"\\\n", " ", part).partition("\n")
        yield command, shown


def must_match(shown: str, printed: str) -> None:
    pattern = ".*".join(re.escape(" ".join(piece.split())) for piece in shown.split("…"))
    assert re.fullmatch(pattern, " ".join(printed.split())), f"shown is\n{shown}\nprinted was\n{printed}"


@contextmanager
def notebook(folder: Path, **variables: str) -> Iterator[Notebook]:
    opened = Notebook(folder, variables)
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    variables = {}
    if "DATABASE_URL" in page.read_text():
        variables["DATABASE_URL"] = request.getfixturevalue("postgres_url")
    if "BUCKET_URL" in page.read_text():
        variables["BUCKET_URL"] = s3.shared().address(f"docs/{os.urandom(8).hex()}")
    with notebook(tmp_path, **variables) as book:
        for block in blocks(page):
            try:
                _do(book, block)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                raise AssertionError(f"{page.relative_to(ROOT)}, line {block.line}: {error}") from None


def _do(book: Notebook, block: Block) -> None:
    match block:
        case Block(excuse=excuse) if excuse:
            pass
        case Block(kind="python", title=""):
            book.execute(block.body)
        case Block(kind="console"):
            book.type(block.body)
        case Block(kind="text", title="Output"):
            book.must_have_printed(block.body)
        case Block(title=title) if title:
            book.write(title, block.body)


def test_hardly_any_block_is_excused() -> None:
    excused = [(page.name, block.line) for page in PAGES for block in blocks(page) if is_run(block) and block.excuse]
    assert len(excused) <= MOST_EXCUSED, excused


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a  b\n", "a b"),
        ("run …  done", "run 17 x\n done"),
        ("…end", "the end"),
        ("a\n…\nz", "a\nb\nc\nz"),
        ("a…", "a"),
    ],
)
def test_what_is_left_out_stands_for_anything(shown: str, printed: str) -> None:
    must_match(shown, printed)


@pytest.mark.parametrize(("shown", "printed"), [("a", "ab"), ("a … c", "a b"), ("a.c", "abc"), ("a", "")])
def test_what_is_shown_has_to_be_there(shown: str, printed: str) -> None:
    with pytest.raises(AssertionError):
        must_match(shown, printed)


def test_the_first_page_shows_the_project_that_init_makes() -> None:
    from outlast.cli.project_template import FILES

    shown = {block.title: block.body for block in blocks(DOCS / "tutorial" / "1-first-workflow.md") if block.title}
    assert {name: FILES[name] for name in shown} == shown
