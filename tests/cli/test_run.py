"""`outlast run` starts a workflow and waits for it: what it prints, what it refuses, with which code it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from outlast.cli.outcome import how_to_decide
from outlast.history.events import Failure
from outlast.history.ids import RunId


def test_the_result_is_printed_and_the_rest_is_said_on_stderr(project: Any) -> None:
    ran = project("run", "flows:greet", "name=zoe", "times=2", "--id", "hello-1")
    assert (ran.returncode, ran.stdout) == (0, "hello zoe hello zoe\n")
    assert ran.stderr.splitlines() == ["run hello-1 of greet", "run hello-1 completed, 1 node done"]


def test_programs_get_one_object_and_pipes_the_id(project: Any) -> None:
    told = json.loads(project("run", "flows:greet", "name=zoe", "--id", "a", "-o", "json").stdout)
    assert told.pop("result") == "hello zoe"
    assert told == {"run": "a", "status": "completed", "error": None, "held": False, "reason": "", "files": []}
    ran = project("run", "flows:greet", "name=zoe", "--id", "b", "-o", "ids")
    assert ran.stdout == "b\n"
    assert project("ps", "-o", "ids").stdout.split() == ["b", "a"]


def test_a_run_can_be_created_and_started_later(project: Any) -> None:
    made = project("run", "flows:greet", "name=zoe", "--id", "later", "--no-start")
    assert (made.returncode, made.stdout) == (0, "")
    assert made.stderr.splitlines() == ["run later of greet is created", "Start it: outlast start later"]
    told = json.loads(project("run", "flows:greet", "name=zoe", "--id", "later", "--no-start", "-o", "json").stdout)
    assert told == {"run": "later", "status": "created"}
    refused = project("resume", "later", "--no-wait")
    assert (refused.returncode, "start it" in refused.stderr) == (2, True)
    started = project("start", "later")
    assert (started.returncode, started.stdout) == (0, "hello zoe\n")
    assert project("start", "later").returncode == 2


def test_a_run_may_wait_in_a_queue(project: Any) -> None:
    ran = project(
        "run", "flows:greet", "name=zoe", "--queue", "mail", "--priority", "-3", "--fairness-key", "acme", "--id", "q"
    )
    assert (ran.returncode, ran.stdout) == (0, "hello zoe\n")
    created = json.loads(project("events", "q", "-o", "json").stdout.splitlines()[0])["fields"]
    assert {"queue": "mail", "priority": -3, "fairness_key": "acme"}.items() <= created.items()
    refused = project("run", "flows:greet", "name=zoe", "--priority", "101")
    assert (refused.returncode, "priority must be a whole number from -100 to 100" in refused.stderr) == (2, True)


def test_what_is_no_text_is_printed_as_json_and_nothing_as_nothing(project: Any) -> None:
    order = '{"item": "lamp", "count": 3}'
    ran = project("run", "flows:mixed", "when=2026-11-01T10:00", "colour=red", f"order={order}", "path=/a/b")
    assert json.loads(ran.stdout) == {"when": "2026-11-01", "colour": "RED", "order": "3 lamp", "path": "b"}
    assert project("run", "flows:nothing").stdout == ""


def test_a_run_that_continues_as_another_is_followed_to_the_last(project: Any) -> None:
    ran = project("run", "flows:again", "left=3", "--id", "first")
    assert (ran.returncode, ran.stdout) == (0, "the last one\n")
    assert "run first of again" in ran.stderr


def test_parameters_may_come_as_json_and_from_stdin(project: Any) -> None:
    assert project("run", "flows:greet", "--json", '{"name": "zoe", "loud": true}').stdout == "HELLO ZOE\n"
    assert project("run", "flows:greet", "times=2", "--json", "-", stdin='{"name": "x"}').stdout == "hello x hello x\n"


@pytest.mark.parametrize("entry", ["flows.py:greet", "./flows.py:greet", "flows:greet"])
def test_a_workflow_is_named_by_its_module_or_its_file(entry: str, project: Any) -> None:
    assert project("run", entry, "name=zoe").stdout == "hello zoe\n"


def test_a_module_with_one_workflow_names_it(project: Any) -> None:
    project.write("single.py", "import outlast as ol\n\n@ol.workflow\nasync def only() -> int:\n    return 7\n")
    assert project("run", "single").stdout == "7\n"


def test_modules_are_found_from_any_folder_of_the_project(project: Any) -> None:
    below = project.folder / "below"
    below.mkdir()
    ran = project("run", "flows:nothing", "--id", "from-below", folder=below)
    assert ran.returncode == 0, ran.stderr
    assert project("ps", "-o", "ids").stdout == "from-below\n"


def test_asked_for_twice_under_an_id_or_a_key_it_is_one_run(project: Any) -> None:
    for name in ("--id", "--key"):
        first = project("run", "flows:greet", "name=zoe", name, "monday", "-o", "json")
        second = project("run", "flows:greet", "name=zoe", name, "monday", "-o", "json")
        assert json.loads(first.stdout) == json.loads(second.stdout)
        other = project("run", "flows:greet", "name=tom", name, "monday")
        assert (other.returncode, other.stdout) == (2, "")
        assert "is already used with different parameters" in other.stderr
    assert (project.folder / "noted.txt").read_text() == "hello zoe\n" * 2
    assert project("run", "flows:nothing", "--id", "a", "--key", "b").returncode == 2


def test_title_and_tags_are_kept(project: Any) -> None:
    project("run", "flows:nothing", "--title", "Monday’s", "--tag", "nightly", "-t", "news")
    (run,) = json.loads(project("ps", "--tag", "news", "-o", "json").stdout)["runs"]
    assert (run["title"], run["tags"]) == ("Monday’s", ["nightly", "news"])


def test_attributes_have_the_type_that_they_look_like(project: Any) -> None:
    given = ["customer=acme", "total=12.5", "paid=false", "due=2026-11-30T13:00+01:00", 'code="12"', "note=a=b"]
    options = [word for each in given for word in ("--attribute", each)]
    assert project("run", "flows:greet", "name=zoe", "--id", "a", *options).returncode == 0
    (run,) = json.loads(project("ps", "-o", "json").stdout)["runs"]
    assert run["attributes"] == {
        "customer": "acme",
        "total": 12.5,
        "paid": False,
        "due": {"time": "2026-11-30T12:00:00.000000Z"},
        "code": "12",
        "note": "a=b",
    }
    shown = project("show", "a").stdout
    assert 'customer=acme, total=12.5, paid=false, due=2026-11-30T12:00:00Z, code="12", note=a=b' in shown


def test_a_run_that_fails_says_where_why_and_what_next_and_ends_with_4(project: Any) -> None:
    ran = project("run", "flows:fragile", "--id", "f")
    assert (ran.returncode, ran.stdout) == (4, "")
    assert "run f failed in node wants_repair: ValueError: broken [red]here[/red]" in ran.stderr
    assert "outlast resume f" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_failed_run_that_undid_something_is_not_said_to_be_resumed(project: Any) -> None:
    """`outlast resume` refuses it: it would go on without what was undone."""
    ran = project("run", "flows:travelling", "--id", "t")
    shown = project("show", "t")
    assert project("resume", "t").returncode == 2
    for said in (ran.stderr, shown.stdout):
        assert "outlast jump t --to reserve" in said
        assert "outlast resume" not in said


def test_programs_get_the_error_of_a_failed_run(project: Any) -> None:
    ran = project("run", "flows:fragile", "--id", "f", "-o", "json")
    told = json.loads(ran.stdout)
    assert (ran.returncode, told["status"], told["result"]) == (4, "failed", None)
    assert (told["error"]["kind"], told["error"]["node"]) == ("builtins:ValueError", "wants_repair")
    assert "raise ValueError" in told["error"]["trace"]


def test_a_store_named_by_a_flag_is_named_in_what_is_advised(project: Any) -> None:
    ran = project("run", "flows:fragile", "--id", "f", "--store", "my runs.db")
    assert "outlast resume f --store 'my runs.db'" in ran.stderr
    (project.folder / "repaired").touch()
    assert project("resume", "f", "--store", "my runs.db").stdout == "whole\n"


def test_a_run_that_is_cancelled_from_elsewhere_ends_the_command_with_6(project: Any) -> None:
    with project.begun("run", "flows:passing", "--id", "p") as process:
        project.until_there("at-the-gate")
        asked = project("cancel", "p", "--reason", "no longer needed")
        assert (asked.returncode, asked.stdout) == (0, "")
        _, err = process.communicate(timeout=30)
    assert process.returncode == 6
    assert "run p was cancelled: no longer needed" in err.decode()


def test_nothing_is_drawn_where_nobody_looks(project: Any) -> None:
    with project.begun("run", "flows:passing") as process:
        project.until_there("at-the-gate")
        (project.folder / "open").touch()
        out, err = process.communicate(timeout=30)
    assert out == b"through\n"
    assert b"\x1b" not in err
    assert len(err.splitlines()) == 2


def test_a_run_that_its_code_no_longer_fits_is_not_just_to_be_resumed() -> None:
    told = how_to_decide(Failure("outlast.run_diverged"), RunId("r"), " --store x.db")
    assert all(f"outlast {verb} r --store x.db" in told for verb in ("versions diff", "resume", "migrate", "cancel"))
    assert "migrate" not in how_to_decide(Failure("outlast.node_interrupted"), RunId("r"), "")


# --- mistakes


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("flows:greet",),
            "missing parameter name; the workflow is greet(name: str, times: int = 1, loud: bool = False)",
        ),
        (("flows:greet", "name=zoe", "size=3"), "unknown parameter 'size'; the workflow is greet("),
        (("flows:greet", "name=zoe", "times=many"), "parameter times: expected int, but 'many' is given"),
        (("flows:greet", "name=zoe", "loud=perhaps"), "parameter loud: expected bool, but 'perhaps' is given"),
        (("flows:greet", "zoe"), "'zoe' is not key=value"),
        (("flows:greet", "name=zoe", "name=tom"), "parameter name is given twice"),
        (("flows:greet", "name=zoe", "--json", '{"name": "tom"}'), "parameter name is given twice"),
        (("flows:greet", "--json", '{"name": '), "--json requires a JSON object, such as"),
        (("flows:greet", "--json", "[1]"), "--json requires a JSON object, such as"),
        (("flows:greet", "--json", '{"name": 3}'), "parameter name: expected str, but 3 is given"),
        (("flows:mixed", "order={}"), "parameter order"),
        (("flows:mixed", "colour=green"), "parameter colour"),
        (("nowhere:greet",), "no module named nowhere"),
        (("nowhere.py:greet",), "no such file: "),
        (("flows:nobody",), "has no workflow 'nobody': use one of again, asking"),
        (("flows",), "flows defines several workflows: write flows:name"),
        (("flows:greet", "name=zoe", "--app", "nowhere"), "no module named nowhere"),
        (("flows:greet", "name=zoe", "--id", "a b"), "cannot be a run id"),
        (("flows:greet", "name=zoe", "--attribute", "lot"), "--attribute 'lot' is not name=value"),
        (("flows:greet", "name=zoe", "--attribute", "Lot=7"), "--attribute: 'Lot' is not a name of an attribute"),
        (("flows:greet", "name=zoe", "--attribute", "lot=7", "--attribute", "lot=8"), "--attribute lot is given twice"),
    ],
)
def test_a_mistake_is_said_in_a_line_and_starts_nothing(arguments: tuple[str, ...], told: str, project: Any) -> None:
    ran = project("run", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert told in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (project.folder / "noted.txt").exists()


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("def (", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("import not_installed_here", "it needs not_installed_here"),
        ("raise SystemExit(3)", "__main__"),
        ("x = 1", "bad defines no workflow"),
    ],
)
def test_a_module_that_cannot_be_imported_says_why(code: str, told: str, project: Any) -> None:
    project.write("bad.py", f"{code}\n")
    ran = project("run", "bad:w")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert told in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (project.folder / ".outlast").exists()


def test_a_module_without_workflows_is_said_to_have_none(project: Any) -> None:
    project.write("bare.py", "x = 1\n")
    assert project("run", "bare").stderr == "outlast: bare defines no workflow\n"


@pytest.mark.parametrize("name", [":", ":greet"])
def test_a_workflow_of_no_module_is_refused_in_words(name: str, project: Any) -> None:
    ran = project("run", name)
    assert (ran.returncode, "has no module: write module:workflow" in ran.stderr) == (2, True)


@pytest.mark.parametrize("option", ["--id", "--key", "--json", "--tag", "--app"])
def test_an_empty_option_starts_nothing(option: str, project: Any) -> None:
    """A variable of a script that was not set must not mean another run every time."""
    ran = project("run", "flows:greet", "name=zoe", option, "")
    assert (ran.returncode, ran.stderr) == (2, f"outlast: {option} is empty: give a value, or omit it\n")


def test_parameters_are_taken_exactly_or_refused(project: Any) -> None:
    deep = "[" * 10_000 + "]" * 10_000
    for arguments, told in (
        (("--json", f'{{"value": {deep}}}'), "--json: the JSON is nested too deeply"),
        ((f"value={deep}",), "parameter value: the JSON is nested too deeply"),
        (("--json", '{"value": 1, "value": 2}'), "--json: the key 'value' appears twice in one JSON object"),
        (("--json", '{"value": [{"a": 1, "a": 2}]}'), "--json: the key 'a' appears twice"),
        (('value={"a": 1, "a": 2}',), "parameter value: the key 'a' appears twice"),
    ):
        ran = project("run", "flows:returning", *arguments)
        assert (ran.returncode, told in ran.stderr, "Traceback" in ran.stderr) == (2, True, False), ran.stderr
    large = 123456789012345678901234567890
    assert project("run", "flows:returning", f"value={large}").stdout == f"{large}\n"
    for text in (deep, '{"a": 1, "a": 2}'):
        assert project("run", "flows:returning", "value=1", f"text={text}").stdout == f"{text}\n"
