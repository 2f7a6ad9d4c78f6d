"""`outlast config show`: every setting, its value and its source."""

from __future__ import annotations

import json
from typing import Any

import pytest

from outlast.settings import KEYS


def test_it_shows_every_setting_with_its_source(shell: Any) -> None:
    (shell.folder / "outlast.toml").write_text('apps = ["flows", "jobs"]\nclaim = 12.5\n')
    answer = shell("config", "show", OUTLAST_THREADS="4")
    assert answer.exit_code == 0
    told = {line.split()[0]: line for line in answer.stdout.splitlines()}
    assert tuple(told) == ("setting", *KEYS, "project")
    assert told["store"].split()[1:] == [str(shell.store), "environment", "OUTLAST_STORE"]
    assert "flows, jobs " in told["apps"]
    assert told["apps"].endswith(f"file {shell.folder / 'outlast.toml'}")
    assert "12.5 " in told["claim"]
    assert told["threads"].split()[1:] == ["4", "environment", "OUTLAST_THREADS"]
    assert told["on_restart"].split()[1:] == ["resume", "default"]
    assert told["project"].split()[1:] == [str(shell.folder)]


def test_programs_read_it_as_json(shell: Any) -> None:
    told = json.loads(shell("config", "show", "-o", "json", "--store", "other.db").stdout)
    assert told["root"] == str(shell.folder)
    assert tuple(told["settings"]) == KEYS
    assert told["settings"]["store"] == {"value": "other.db", "source": "flag --store"}
    assert told["settings"]["apps"] == {"value": [], "source": "default"}
    assert told["settings"]["claim"] == {"value": 30.0, "source": "default"}


def test_the_store_in_the_project_file_is_the_one_that_is_looked_into(
    shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OUTLAST_STORE")
    (shell.folder / "outlast.toml").write_text('store = "runs.db"\n')
    below = shell.folder / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert shell("ps", "-o", "ids").stdout.split() == list(reversed(shell.runs.values()))


def test_control_characters_in_the_file_have_no_effect_on_the_terminal(shell: Any) -> None:
    """C4"""
    (shell.folder / "outlast.toml").write_text('apps = ["\\u001b[2J[red]"]\n')
    answer = shell("config", "show")
    assert answer.exit_code == 0
    assert "\x1b" not in answer.output
    assert "[red]" in answer.stdout


@pytest.mark.parametrize("command", [("config", "show"), ("ps",), ("db", "info"), ("events", "x"), ("verify", "--all")])
@pytest.mark.parametrize(
    ("text", "variables", "told"),
    [
        ("claim = 'soon'", {}, "outlast.toml: claim cannot be 'soon'; allowed is a number of seconds"),
        ("stroe = 'x.db'", {}, "did you mean store?"),
        ("store = 'ftp://me:secret@there/x'", {}, "unknown kind of store 'ftp'"),
        ("[claim", {}, "outlast.toml is not valid TOML"),
        ("", {"OUTLAST_THREADS": "many"}, "environment OUTLAST_THREADS: threads cannot be 'many'"),
        ("", {"OUTLAST_CONCURENCY": "5"}, "did you mean OUTLAST_CONCURRENCY?"),
    ],
)
def test_what_cannot_be_meant_is_a_mistake_in_every_command(
    command: tuple[str, ...], text: str, variables: dict[str, str], told: str, shell: Any
) -> None:
    """G2, G3, C1"""
    (shell.folder / "outlast.toml").write_text(text)
    answer = shell(*command, **variables)
    assert answer.exit_code == 2, answer.output
    assert told in answer.stderr
    assert "secret" not in answer.output
    assert answer.stdout == ""
