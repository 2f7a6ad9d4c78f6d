"""`outlast init`: a project that runs and tests itself."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outlast.cli.project_template import FILES, README
from outlast.settings import read_settings
from support import commands

PATIENCE = 60


@pytest.fixture
def project(shell: Any) -> Path:
    """A new project, and no store named elsewhere."""
    answer = shell("init", "my-project")
    assert answer.exit_code == 0, answer.output
    folder: Path = shell.folder / "my-project"
    return folder


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OUTLAST_", "PYTEST_"))}
    return commands.run(command, cwd=folder, env=kept, capture_output=True, text=True, timeout=PATIENCE)


def test_it_makes_the_files_and_says_which(shell: Any, project: Path) -> None:
    assert {path.name for path in project.iterdir()} == set(FILES)
    answer = shell("init", "another")
    assert answer.stdout.splitlines() == [f"another/{name}" for name in FILES]
    assert "cd another" in answer.stderr


def test_without_a_folder_it_is_the_current_one(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (shell.folder / "here").mkdir()
    monkeypatch.chdir(shell.folder / "here")
    answer = shell("init")
    assert (answer.exit_code, answer.stdout.split()) == (0, list(FILES))
    assert "cd" not in answer.stderr


@pytest.mark.parametrize("name", list(FILES))
def test_it_replaces_nothing_and_then_makes_nothing(name: str, shell: Any) -> None:
    folder = shell.folder / "mine"
    folder.mkdir()
    (folder / name).write_text("mine")
    answer = shell("init", "mine")
    assert answer.exit_code == 2
    assert f"mine already has {name}" in answer.stderr
    assert [path.name for path in folder.iterdir()] == [name]
    assert (folder / name).read_text() == "mine"


@pytest.mark.parametrize("folder", ["a-file", "a-file/below", "x\0y", "y" * 5000])
def test_where_there_can_be_no_project_it_says_so(folder: str, shell: Any) -> None:
    (shell.folder / "a-file").touch()
    answer = shell("init", "--", folder)
    assert answer.exit_code == 2, answer.output
    assert isinstance(answer.exception, SystemExit)
    assert "could not create a project" in answer.stderr


def test_the_settings_it_writes_are_in_force(project: Path) -> None:
    settings = read_settings(environment={}, start=project)
    assert (settings.root, settings.store, settings.apps) == (
        project,
        str(project / ".outlast" / "runs.db"),
        ("flows",),
    )


def test_every_setting_it_mentions_may_be_set_as_it_stands_there(project: Path) -> None:
    file = project / "outlast.toml"
    file.write_text(re.sub(r"(?m)^# (?=\w+ = )", "", file.read_text()))
    sources = read_settings(environment={}, start=project).sources
    assert {key for key, source in sources.items() if source == "default"} == {
        "blobs",
        "capture_stdout",
        "profile",
        "url",
    }


def test_the_tests_of_a_new_project_pass(project: Path) -> None:
    ran = run(project, sys.executable, "-m", "pytest", "-q")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 passed" in ran.stdout


def test_the_commands_in_its_readme_work_as_they_stand_there(project: Path) -> None:
    lines = re.findall(r"(?m)^\$ (.*)$", README)
    assert len(lines) == 3
    known = {"python": [sys.executable], "outlast": [sys.executable, "-m", "outlast"]}
    for words in map(shlex.split, lines):
        ran = run(project, *known[words[0]], *words[1:])
        assert ran.returncode == 0, (words, ran.stdout, ran.stderr)
    assert (project / ".outlast" / "runs.db").exists()
