"""`outlast ps` lists runs for people, programs and pipes, and never cuts a list short in silence."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary
from outlast.views.build import run_view
from outlast.views.texts import short_ids
from outlast.views.types import RunListView

NOW = 1_793_600_000_000_000


def listed(shell: Any, *arguments: str) -> list[str]:
    """The workflows of the runs that are shown."""
    answer = shell("ps", "-o", "json", *arguments)
    assert answer.exit_code == 0, answer.stderr
    return [run["workflow"] for run in json.loads(answer.stdout)["runs"]]


def test_the_table_shows_every_run_with_what_it_waits_for_or_why(shell: Any) -> None:
    answer = shell("ps")
    assert answer.exit_code == 0
    lines = answer.stdout.splitlines()
    assert len(lines) == 7
    for workflow, told in (
        ("approval", "answer to “Publish 12 pages?”"),
        ("payout", "held: Server restarted while workflow was running"),
        ("import", "line 17: not a number in column ‘price’"),
        ("order", "signal payment received, timer reminder"),
    ):
        (line,) = [line for line in lines if f"  {workflow} " in line]
        assert told in line
    assert answer.stderr == ""


@pytest.mark.parametrize("width", [40, 80, 140])
def test_the_table_fits_the_screen(width: int, shell: Any) -> None:
    lines = shell("ps", COLUMNS=str(width)).stdout.splitlines()
    assert len(lines) == 7
    assert max(map(len, lines)) <= width
    if width >= 80:
        assert all(shell.runs[name][:13] in "\n".join(lines) for name in ("digest", "report"))


def test_json_has_stable_names_and_times_that_programs_read(shell: Any) -> None:
    document = json.loads(shell("ps", "-o", "json").stdout)
    assert set(document) == {"runs", "next"}
    assert document["next"] is None
    (approval,) = [run for run in document["runs"] if run["workflow"] == "approval"]
    assert set(approval) == {
        *("run", "workflow", "status", "kind", "title", "tags", "parent", "version", "created", "updated"),
        *("branch", "at", "done_nodes", "reason", "recoverable", "held", "waiting", "waits", "progress", "holder"),
        *("awaits_start", "attributes", "queue", "priority", "fairness_key"),
    }
    assert re.fullmatch(r"2026-11-01T10:00:00\.\d{6}Z", approval["created"])
    assert approval["waits"] == [
        {
            "kind": "interaction",
            "id": "q1",
            "node": "draft",
            "due": None,
            "text": "Publish 12 pages?",
            "since": "2026-11-01T10:00:01.250000Z",
        }
    ]


def test_ids_are_whole_and_one_per_line(shell: Any) -> None:
    answer = shell("ps", "-o", "ids")
    assert answer.stdout.splitlines() == list(reversed(shell.runs.values()))


def test_the_ids_of_the_table_find_their_runs(shell: Any) -> None:
    shown = [line.split()[0] for line in shell("ps").stdout.splitlines()[1:]]
    for short, run in zip(shown, reversed(shell.runs.values()), strict=True):
        assert shell("verify", short, "-o", "json").exit_code == 0
        assert run.startswith(short)


def test_runs_are_chosen_by_status_workflow_tag_parent_and_text(shell: Any) -> None:
    assert listed(shell, "--status", "completed") == ["report", "digest"]
    assert listed(shell, "--status", "completed,failed") == ["report", "import", "digest"]
    assert listed(shell, "-s", "waiting", "-s", "Failed") == ["order", "import", "approval"]
    assert listed(shell, "--workflow", "digest") == ["digest"]
    assert listed(shell, "--tag", "nightly", "--tag", "news") == ["digest"]
    assert listed(shell, "--tag", "nightly", "--tag", "money") == []
    assert listed(shell, "--parent", shell.runs["report"][:13]) == ["order"]
    assert listed(shell, "--text", "LAMPS") == ["order"]


def test_held_runs_are_listed_by_themselves_and_not_among_the_failed(shell: Any) -> None:
    """To resume what failed must not decide about what waits for a person."""
    assert listed(shell, "--status", "held") == ["payout"]
    assert listed(shell, "--status", "failed") == ["import"]
    assert listed(shell, "--status", "Held,failed") == ["payout", "import"]
    assert listed(shell, "--status", "waiting,held") == ["order", "payout", "approval"]
    assert "  held " in shell("ps", "--status", "held").stdout


def test_runs_are_chosen_and_sorted_by_their_attributes(shell: Any) -> None:
    assert listed(shell, "--attribute", "customer=acme") == ["import", "approval"]
    assert listed(shell, "--attribute", "customer=acme", "--attribute", "pages>=10") == ["approval"]
    assert listed(shell, "--attribute", "urgent=true") == ["payout"]
    assert listed(shell, "--attribute", 'code="12"') == ["import"]
    assert listed(shell, "--attribute", "code=12") == []
    assert listed(shell, "--attribute", "due<2026-11-03T00:00Z") == ["approval"]
    assert listed(shell, "--sort", "pages") == ["import", "approval"]
    assert listed(shell, "--sort", "-pages") == ["approval", "import"]
    assert listed(shell, "--queue", "slow") == ["import"]
    assert listed(shell, "--held") == ["payout"]
    assert listed(shell, "--held", "--status", "waiting") == []


@pytest.mark.parametrize(("width", "columns"), [(80, "customer"), (140, "customer,due")])
def test_attributes_are_columns(width: int, columns: str, shell: Any) -> None:
    lines = shell("ps", "--sort", "-pages", "--columns", columns, COLUMNS=str(width)).stdout.splitlines()
    assert max(map(len, lines)) <= width
    names = ["run", "workflow", "status", "age", "done", *columns.split(","), "pages"]
    assert lines[0].split()[: len(names)] == names
    at = lines[0].index("pages")
    assert [line[at : at + 5].strip() for line in lines[1:]] == ["12", "2.5"]
    assert ("2026-11-02T15:00:00Z" in lines[1]) is ("due" in columns)
    assert "acme" in lines[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--attribute", "customer"), "--attribute: 'customer' is not a condition: write the name of an attribute"),
        (("--attribute", "due<2026-11-03"), "--attribute: due: '2026-11-03' is a time without a zone"),
        (("--sort", "Total"), "--sort: 'Total' is not a name of an attribute"),
        (("--columns", "customer,"), "--columns: '' is not a name of an attribute"),
    ],
)
def test_what_is_no_condition_is_refused(arguments: tuple[str, ...], message: str, shell: Any) -> None:
    answer = shell("ps", *arguments)
    assert answer.exit_code == 2
    assert message in " ".join(answer.stderr.split())


async def _some_held(maker: Any) -> None:
    for number in range(6):
        writer = await maker.begin(f"w{number}")
        error = e.Failure("builtins:ValueError", "no")
        await writer.append([e.RunFailed(error=error, recoverable=True, held=number % 2 == 0)], release=True)


def test_a_list_of_held_runs_is_as_long_as_asked_for_and_goes_on_where_it_ended(fill: Any, shell: Any) -> None:
    store = str(shell.folder / "held.db")
    fill(shell.folder / "held.db", _some_held)
    first = json.loads(shell("ps", "--store", store, "--status", "held", "-n", "2", "-o", "json").stdout)
    assert [run["workflow"] for run in first["runs"]] == ["w4", "w2"]
    assert listed(shell, "--store", store, "--status", "held", "--after", first["next"]) == ["w0"]
    assert listed(shell, "--store", store, "--status", "failed", "--all") == ["w5", "w3", "w1"]


def test_a_status_may_be_called_by_its_other_names(shell: Any) -> None:
    assert listed(shell, "--status", "awaiting_input") == listed(shell, "--status", "waiting")
    assert listed(shell, "--status", "error") == listed(shell, "--status", "failed")


def test_runs_are_chosen_by_when_they_were_created(shell: Any) -> None:
    assert listed(shell, "--since", "2026-11-01T13:00Z") == ["order", "payout"]
    assert listed(shell, "--until", "2026-11-01T10:00Z") == ["digest"]
    assert listed(shell, "--since", "2026-11-01T12:00+02:00", "--until", "2026-11-01T11:30Z") == ["import", "approval"]
    assert listed(shell, "--since", "9999w") == listed(shell)
    assert listed(shell, "--until", "9999w") == []


def test_a_list_that_goes_on_says_so_and_how(shell: Any) -> None:
    first = shell("ps", "--limit", "4")
    assert len(first.stdout.splitlines()) == 5
    assert "there are more" in first.stderr
    assert "--all" in first.stderr
    cursor = first.stderr.split("--after ")[1].strip()
    assert listed(shell, "--after", cursor) == ["approval", "digest"]
    assert json.loads(shell("ps", "-n", "4", "-o", "json").stdout)["next"] == cursor
    assert "there are more" in shell("ps", "-n", "4", "-o", "ids").stderr
    assert len(listed(shell, "--limit", "4", "--all")) == 6


def test_nothing_to_show_is_said(shell: Any) -> None:
    assert "no run matches" in shell("ps", "--workflow", "none").stderr
    assert "no runs yet" in shell("--store", "memory:", "ps").stderr
    assert shell("ps", "--workflow", "none", "-o", "ids").stdout == ""
    assert json.loads(shell("ps", "--workflow", "none", "-o", "json").stdout) == {"runs": [], "next": None}


def test_text_from_a_store_has_no_effect_on_the_terminal() -> None:
    hostile = "\x1b[2J[red]x[/red]\r\n\x07\x9b31m\u202e:smile:"
    run = RunSummary(
        RunId("r"),
        1,
        RunStatus.WAITING,
        hostile,
        created=NOW,
        reason=hostile,
        waiting=1,
        waits=(Wait("interaction", hostile, hostile, None, hostile),),
    )
    lines = str(RunListView(runs=(run_view(run),), next=None)).splitlines()
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
    assert "\\x1b[2J[red]x[/red]" in lines[1]


def test_short_ids_tell_their_runs_apart() -> None:
    runs = [
        "01a19656-4b7a-7ab3-bdca-ec218a2d5a33",
        "01a19656-4b7a-7ab4-bdca-ec218a2d5a33",
        "01a1968d-39fa-7e7c-80c9-3e14b5d3c7f2",
        "01a1968d-39fa-8e7c-80c9-3e14b5d3c7f2",
        "chosen-by-a-person-who-likes-long-names-for-runs",
    ]
    short = short_ids(runs)
    assert list(short.values()) == [
        "01a19656-4b7a-7ab3",
        "01a19656-4b7a-7ab4",
        "01a1968d-39fa-7",
        "01a1968d-39fa-8",
        "chosen-by-a-person-who-likes-long-names-for-runs",
    ]
    assert short_ids(["01a1968d-39fa-7e7c-80c9-3e14b5d3c7f2"]) == {
        "01a1968d-39fa-7e7c-80c9-3e14b5d3c7f2": "01a1968d-39fa"
    }
