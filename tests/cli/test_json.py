"""Every command with `-o json` prints views: their JSON fits the published schema, and has neither more nor fewer fields."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.main import get_command

import outlast as ol
from outlast.cli.app import app
from outlast.client.answer_check import check_answer
from outlast.client.bulk import Target
from outlast.functions import registry
from outlast.views.schema import VIEWS, json_schema

FLOWS = Path(__file__).with_name("flows.py")
READING = {
    "ps": ("run_list", ["ps"]),
    "show": ("run_detail", ["show", "{approval}"]),
    "show of a failed run": ("run_detail", ["show", "{import}"]),
    "show of a run that is held": ("run_detail", ["show", "{payout}"]),
    "show of a run with branches": ("run_detail", ["show", "{report}"]),
    "show of a run that waits for much": ("run_detail", ["show", "{order}"]),
    "explain": ("explanation", ["explain", "{report}"]),
    "explain of a run that waits": ("explanation", ["explain", "{order}"]),
    "explain of a held run": ("explanation", ["explain", "{payout}"]),
    "events": ("event", ["events", "{digest}"]),
    "branches": ("branch_tree", ["branches", "{report}"]),
    "compare": ("comparison", ["compare", "{report}"]),
    "verify": ("verification_list", ["verify", "--all"]),
    "doctor": ("doctor", ["doctor", "--all"]),
    "doctor of one run": ("doctor", ["doctor", "{payout}", "--fix", "--dry-run"]),
    "workers": ("worker_list", ["workers"]),
    "versions list": ("version_list", ["versions", "list", "digest"]),
    "config show": ("settings", ["config", "show"]),
    "db info": ("store", ["db", "info"]),
    "jump with --dry-run": ("plan", ["jump", "{report}", "--to", "collect", "--dry-run"]),
    "rewind with --dry-run": ("plan", ["rewind", "{report}", "--dry-run"]),
    "retry with --dry-run": ("plan", ["retry", "{digest}", "publish", "--dry-run"]),
    "audit": ("audit_list", ["audit"]),
    "bulk start with --dry-run": ("bulk_preview", ["bulk", "start", "cancel", "--dry-run"]),
    "sweeper with --dry-run": ("sweep_report", ["sweeper", "--once", "--dry-run"]),
}
WRITING = {
    "answer": ("answer", ["answer", "{approval}", "--yes"]),
    "pause": ("run_status", ["pause", "{order}"]),
    "cancel": ("run_status", ["cancel", "{order}"]),
    "resume": ("run_status", ["resume", "{payout}", "--no-wait"]),
    "retry": ("run_status", ["retry", "{payout}", "--no-wait"]),
    "jump": ("run_status", ["jump", "{report}", "--to", "collect", "--no-wait"]),
    "rewind": ("run_status", ["rewind", "{report}", "--no-wait"]),
    "activate": ("run_status", ["activate", "{report}", "0", "--no-wait"]),
    "fork": ("run_status", ["fork", "{report}", "--no-wait"]),
    "delete": ("tombstone", ["delete", "{report}", "--yes"]),
    "prune": ("pruned", ["prune", "--older", "36500d", "--yes"]),
    "sweeper": ("sweep_report", ["sweeper", "--once"]),
    "bulk start": ("bulk", ["bulk", "start", "cancel", "--status", "waiting", "--yes"]),
    "db backup": ("backup", ["db", "backup", "copy.db"]),
    "copy": ("copy", ["copy", "{digest}", "--to", "other.db"]),
    "token create": ("new_token", ["token", "create", "deploy"]),
    "token list": ("token_list", ["token", "list"]),
}
RUNNING = {
    "run": ("run_result", ["run", "flows.py:greet", "name=zoe", "--id", "g"]),
    "run that fails": ("run_result", ["run", "flows.py:fragile", "--id", "f"]),
    "run that is created": ("run_status", ["run", "flows.py:greet", "name=zoe", "--id", "d", "--no-start"]),
    "start": ("run_result", ["start", "d"]),
    "resume and wait": ("run_result", ["resume", "f"]),
    "show of a run with values": ("run_detail", ["show", "g"]),
    "logs": ("log_line", ["logs", "f"]),
}
ONLY_STORE = {"db": 2, "copy": 1}
"""Commands that refuse a server, and the words of their names."""
BULK = {"bulk show": ("bulk", ["bulk", "show"]), "bulk retry": ("bulk", ["bulk", "retry"])}
EXIT_CODES = (0, 1, 4)
"""Done, or a finding, or the run that was waited for failed: the JSON is printed all the same."""


def must_be_views(text: str, name: str) -> None:
    """Each JSON value fits the schema, and written again from the view it is the same, field by field."""
    documents = [text] if text.startswith("{\n") else text.splitlines()
    assert documents
    for document in documents:
        check_answer(json.loads(document), json_schema(name), name)
        view = msgspec.json.decode(document.encode(), type=VIEWS[name], strict=True)
        assert json.loads(msgspec.json.encode(view)) == json.loads(document)


@pytest.mark.parametrize("what", [*READING, *WRITING])
def test_a_command_prints_views(what: str, anywhere: Any) -> None:
    name, words = (READING | WRITING)[what]
    if "OUTLAST_URL" in os.environ and what == "bulk start":
        words = [*words, "--dry-run"]  # this server has no worker
        name = "bulk_preview"
    answer = anywhere(*(word.format(**anywhere.runs) for word in words), "-o", "json")
    if "OUTLAST_URL" in os.environ and words[0] in ONLY_STORE:
        assert (answer.exit_code, answer.stdout) == (2, "")
        assert f"`outlast {' '.join(words[: ONLY_STORE[words[0]]])}` works on a store" in answer.stderr
        return
    assert answer.exit_code in EXIT_CODES, answer.output
    must_be_views(answer.stdout, name)


def test_commands_about_a_bulk_action_print_views(shell: Any) -> None:
    with ol.open(str(shell.store), take_over_others=False) as engine:
        bulk = engine.bulk.start("cancel", targets=[Target("missing")])
        engine.result(bulk)
    for name, words in BULK.values():
        answer = shell(*words, bulk, "-o", "json")
        assert answer.exit_code == 0, answer.output
        must_be_views(answer.stdout, name)


@pytest.fixture
def _only_flows() -> Iterator[None]:
    """No workflow of another test of this process is known."""
    known, module = dict(registry._workflows), sys.modules.pop("flows", None)
    registry._workflows.clear()
    yield
    registry._workflows.clear()
    registry._workflows.update(known)
    sys.modules.pop("flows", None)
    if module is not None:
        sys.modules["flows"] = module


@pytest.mark.usefixtures("_only_flows")
def test_commands_that_execute_runs_print_views(shell: Any) -> None:
    shutil.copy(FLOWS, shell.folder / "flows.py")
    for name, words in RUNNING.values():
        answer = shell(*words, "-o", "json")
        assert answer.exit_code in EXIT_CODES, answer.output
        must_be_views(answer.stdout, name)


def test_every_command_with_json_is_tried() -> None:
    tried = {" ".join(words) for _, words in (READING | WRITING | RUNNING | BULK).values()}
    for command in _with_json(get_command(app), ""):
        assert any(each == command or each.startswith(f"{command} ") for each in tried), command


def _with_json(command: Any, path: str) -> list[str]:
    if hasattr(command, "list_commands"):
        children = [(name, command.get_command(None, name)) for name in command.list_commands(None)]
        return [found for name, child in children for found in _with_json(child, f"{path} {name}".strip())]
    return [path] if any(each.name == "output" for each in command.params) else []
