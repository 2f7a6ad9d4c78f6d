"""The pages that are made from the product hold all of it, and the site loads nothing from elsewhere."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import outlast
from outlast.cli.entrypoint import EXIT_CODES
from outlast.history.events import EVENT_TYPES
from outlast.settings import KEYS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = spec_from_file_location("pages", DOCS / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_event_has_its_line(pages: ModuleType) -> None:
    described = [name for group in pages.EVENTS.values() for name in group]
    assert described == list(EVENT_TYPES)
    assert all(f"`{name}`" in pages.events() for name in EVENT_TYPES)


def test_every_setting_has_its_line(pages: ModuleType) -> None:
    assert list(pages.SETTINGS) == list(KEYS)
    assert pages.settings().count("\n") == len(KEYS) + 1


def test_every_exit_code_has_its_line(pages: ModuleType) -> None:
    assert all(f"| {code} |" in pages.exit_codes() for code in EXIT_CODES)


def test_the_page_of_errors_is_current(pages: ModuleType) -> None:
    assert (DOCS / "reference/errors.md").read_text() == pages.errors(), "run `make pages`"


def test_every_command_has_its_help(pages: ModuleType) -> None:
    made = pages.commands()
    headings = re.findall(r"^## (.*)$", made, re.MULTILINE)
    assert {"outlast", "outlast ps", "outlast db backup", "outlast config show"} <= set(headings)
    assert made.count("Usage:") == len(headings)
    assert "\x1b" not in made


def test_no_flag_is_said_to_take_a_value(pages: ModuleType) -> None:
    assert re.findall(r".*<bool>.*", pages.commands()) == []


def test_every_made_page_has_its_maker(pages: ModuleType) -> None:
    wanted = [name for page in DOCS.rglob("*.md") for name in pages.MADE.findall(page.read_text())]
    assert sorted(wanted) == sorted(pages.MAKERS)


def test_every_public_name_is_in_the_reference() -> None:
    text = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    places = {name: f"{outlast._MODULES[name]}.{name}" for name in outlast.__all__}
    named = set(re.findall(r"^::: outlast\.(?:.*\.)?(\w+)$", text, re.MULTILINE)) | set(vars(outlast.errors))
    assert [place for name, place in places.items() if name not in named] == []


def test_every_page_is_in_the_contents(pages: ModuleType) -> None:
    contents = (ROOT / "mkdocs.yml").read_text()
    own = [page.relative_to(DOCS) for page in DOCS.rglob("*.md") if page.parent.name != "decisions"]
    assert [str(page) for page in own if f"- {page}" not in contents] == []


@pytest.mark.parametrize(
    ("line", "is_foreign"),
    [
        ('<script src="https://elsewhere/x.js"></script>', True),
        ('<link rel="stylesheet" href="//elsewhere/x.css">', True),
        ('<img alt="" src=https://elsewhere/x.png>', True),
        ('<a href="https://elsewhere">a link is fine</a>', False),
        ('<script src="assets/x.js"></script>', False),
        ('<link rel="stylesheet" href="assets/x.css">', False),
    ],
)
def test_what_comes_from_another_host_is_found(pages: ModuleType, line: str, is_foreign: bool) -> None:
    assert bool(pages.FOREIGN.search(line)) == is_foreign
