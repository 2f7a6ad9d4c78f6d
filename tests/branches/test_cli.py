"""`jump`, `rewind`, `activate`, `fork` and `retry` as they are typed, by people and by those who mean no good."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import outlast as ol
from outlast.cli.app import app
from outlast.functions import registry
from outlast.functions.workflow_import import load

LETTERS = """
import outlast as ol

@ol.node
def find(customer: str) -> str:
    return customer.upper()

@ol.node
def draft(customer: str, tone: str = "friendly") -> str:
    return f"a {tone} letter to {customer}{ol.feedback('')}"

@ol.node
def send(text: str) -> str:
    return f"sent {text}"

@ol.workflow(name="letter")
async def letter(customer: str) -> str:
    return await send(await draft(await find(customer)))
"""


def outlast(*arguments: str) -> Result:
    told = CliRunner().invoke(app, list(arguments), prog_name="outlast")
    assert "Traceback" not in told.output
    assert told.exception is None or isinstance(told.exception, SystemExit), told.exception
    return told


@pytest.fixture
def _letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    known = dict(registry._workflows)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTLAST_STORE", str(tmp_path / "runs.db"))
    (tmp_path / "letters.py").write_text(LETTERS)
    told = outlast("run", "letters.py:letter", "customer=ada", "--id", "monday")
    assert told.exit_code == 0, told.output
    yield
    registry._workflows.clear()
    registry._workflows.update(known)


def result(told: Result) -> str:
    assert told.exit_code == 0, told.output
    return told.stdout.strip().splitlines()[-1]


@pytest.mark.usefixtures("_letters")
@pytest.mark.parametrize(
    "how", [("jump", "monday", "--to", "draft"), ("rewind", "monday", "2"), ("retry", "monday", "draft")]
)
def test_a_dry_run_shows_the_events_and_changes_nothing(how: tuple[str, ...]) -> None:
    before = outlast("events", "monday", "-o", "json").stdout
    told = outlast(*how, "--dry-run")
    assert told.exit_code == 0, told.output
    assert "The command would append these events to run monday:" in told.stdout
    assert "\n  BranchOpened Branch 1 opened after event " in told.stdout
    shown = json.loads(outlast(*how, "--dry-run", "-o", "json").stdout)
    assert [event["type"] for event in shown["would_append"]][:2] == ["RunTakenOver", "BranchOpened"]
    assert outlast("events", "monday", "-o", "json").stdout == before


FAMILIES = """
import outlast as ol

@ol.node
def find(customer: str) -> str:
    return customer.upper()

@ol.workflow(name="asking_of_family")
async def asking() -> str:
    return await ol.ask("Who?")

@ol.workflow(name="family")
async def family(customer: str) -> str:
    return await find(customer) + await asking.options(id="child")()
"""


@pytest.mark.usefixtures("_letters")
@pytest.mark.parametrize(("option", "became"), [((), "cancelled"), (("--children", "keep"), "detached")])
def test_a_dry_run_says_what_becomes_of_the_children(tmp_path: Path, option: tuple[str, ...], became: str) -> None:
    (tmp_path / "families.py").write_text(FAMILIES)
    family = vars(load(str(tmp_path / "families.py")))["family"]
    with ol.open(tmp_path / "runs.db") as engine:
        engine.start(family.options(id="tuesday"), "ada")
        while not engine.list_runs(workflow="asking_of_family", status="waiting").items:
            time.sleep(0.01)
    told = outlast("jump", "tuesday", "--to", "find", "--dry-run", *option)
    assert told.exit_code == 0, told.output
    assert f"1 child would be {became}: child" in told.stdout


@pytest.mark.usefixtures("_letters")
def test_every_way_to_go_back_prints_the_new_result() -> None:
    assert result(outlast("retry", "monday", "draft", "-f", ", shorter")) == "sent a friendly letter to ADA, shorter"
    assert result(outlast("jump", "monday", "--to", "draft", "--edit", "tone=dry")) == "sent a dry letter to ADA"
    assert result(outlast("jump", "monday", "--to", "draft", "--edit", 'output="mine"')) == "sent mine"
    assert result(outlast("rewind", "monday", "2")) == "sent a dry letter to ADA"  # what a person gave it, it has
    assert result(outlast("jump", "monday", "--to", "start")) == "sent a friendly letter to ADA"
    assert result(outlast("jump", "monday", "--to", "5", "--reason", "why")) == "sent a friendly letter to ADA"
    assert result(outlast("activate", "monday", "3")) == "sent mine"
    assert result(outlast("fork", "monday", "--at", "draft", "--id", "tuesday")) == "sent a friendly letter to ADA"
    told = json.loads(outlast("branches", "monday", "-o", "json").stdout)
    assert [branch["cause"] for branch in told["branches"]][1:] == [
        "retry",
        "jump",
        "jump",
        "jump",
        "jump",
        "jump",
        "activate",
    ]
    for run in ("monday", "tuesday"):
        assert outlast("verify", run).exit_code == 0


@pytest.mark.usefixtures("_letters")
def test_programs_get_json_or_ids_and_no_wait_only_asks() -> None:
    told = outlast("jump", "monday", "--to", "draft", "-o", "ids")
    assert (told.exit_code, told.stdout) == (0, "monday\n")
    told = outlast("rewind", "monday", "-o", "json")
    assert told.exit_code == 0
    assert json.loads(told.stdout.splitlines()[-1])["run"] == "monday"
    told = outlast("jump", "monday", "--to", "draft", "--no-wait", "-o", "ids")
    assert (told.exit_code, told.stdout) == (0, "monday\n")
    assert "completed" not in outlast("show", "monday").stdout.splitlines()[0]
    told = outlast("fork", "monday", "--no-wait", "--id", "tuesday", "-o", "ids")
    assert (told.exit_code, told.stdout) == (0, "tuesday\n")


@pytest.mark.usefixtures("_letters")
@pytest.mark.parametrize(
    "typed",
    [
        ("jump", "monday"),
        ("jump", "nobody", "--to", "1"),
        ("jump", "monday", "--to", ""),
        ("jump", "monday", "--to", "nobody"),
        ("jump", "monday", "--to", "99999"),
        ("jump", "monday", "--to", "9" * 6000),
        ("jump", "monday", "--to", "12"),
        ("jump", "monday", "--to", "-1"),
        ("jump", "monday", "--to", "draft", "--edit", "nonsense"),
        ("jump", "monday", "--to", "draft", "--edit", "=1"),
        ("jump", "monday", "--to", "draft", "--edit", "tone=a", "--edit", "tone=b"),
        ("jump", "monday", "--to", "draft", "--edit", "tone=a", "--edit", "output=b"),
        ("jump", "monday", "--to", "5", "--edit", "output=b"),
        ("rewind", "monday", "0"),
        ("rewind", "monday", "4"),
        ("rewind", "monday", "x"),
        ("rewind", "monday", "9" * 30),
        ("activate", "monday", "0"),
        ("activate", "monday", "7"),
        ("activate", "monday", "x"),
        ("fork", "monday", "--id", "monday"),
        ("fork", "monday", "--id", "../x"),
        ("fork", "monday", "--at", "nobody"),
        ("fork", "monday", "--at", "99999"),
        ("fork", "nobody"),
        ("retry", "monday", "nobody"),
        ("retry", "monday", "\x1b[31m"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence_and_changes_nothing(typed: tuple[str, ...]) -> None:
    before = outlast("events", "monday", "--all").stdout
    told = outlast(*typed)
    assert told.exit_code in (1, 2, 3, 4), told.output
    assert told.stderr.strip()
    assert "\x1b" not in told.stderr
    assert len(told.stderr) < 2000
    assert outlast("events", "monday", "--all").stdout == before
    assert len(outlast("ps", "--all", "-o", "ids").stdout.split()) <= 1


@pytest.mark.usefixtures("_letters")
def test_the_claim_of_a_jump_is_no_event_of_the_branch_that_it_leaves() -> None:
    """The sums of a comparison agree: shared, the same, different, only left, only right."""
    outlast("jump", "monday", "--to", "draft")
    view = json.loads(outlast("compare", "monday", "--all", "-o", "json").stdout)
    counts, shared = view["counts"], view["shared"]
    assert counts["left"] == 0
    assert view["left"]["events"] == shared + counts["same"] + counts["differs"]
    assert view["right"]["events"] == shared + counts["same"] + counts["differs"] + counts["right"]
