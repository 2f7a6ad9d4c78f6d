"""Runs that were interrupted, by Ctrl+C, by a death, by an error, go on with `outlast resume`, and nothing is done twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def interrupted(project: Any, how: signal.Signals, *arguments: str) -> tuple[int, str]:
    """Send a signal to a command whose node is at the gate; its exit code and what it said."""
    with project.begun(*arguments) as process:
        project.until_there("at-the-gate")
        process.send_signal(how)
        _, err = process.communicate(timeout=30)
    (project.folder / "at-the-gate").unlink()
    return process.returncode, err.decode()


def noted(project: Any) -> list[str]:
    lines: list[str] = (project.folder / "noted.txt").read_text().splitlines()
    return lines


def test_after_ctrl_c_the_run_can_be_resumed_and_what_was_done_is_not_done_again(project: Any) -> None:
    code, said = interrupted(project, signal.SIGINT, "run", "flows:passing", "--id", "p")
    assert code == 130
    assert "pausing… (Ctrl+C again to exit at once)" in said
    assert "run p is paused (Ctrl+C)" in said
    assert "Resume it: outlast resume p; or cancel it: outlast cancel p" in said
    assert "Traceback" not in said
    assert json.loads(project("show", "p", "-o", "json").stdout)["status"] == "paused"
    (project.folder / "open").touch()
    ran = project("resume", "p")
    assert (ran.returncode, ran.stdout) == (0, "through\n")
    assert noted(project) == ["before"]


def test_after_kill_9_resume_completes_the_run(project: Any) -> None:
    code, _ = interrupted(project, signal.SIGKILL, "run", "flows:passing", "--id", "p")
    assert code == -signal.SIGKILL
    (project.folder / "open").touch()
    ran = project("resume", "p", "-o", "json")
    assert (ran.returncode, json.loads(ran.stdout)["result"]) == (0, "through")
    assert noted(project) == ["before"]
    assert project("verify", "p").returncode == 0
    assert " died; run taken over by " in project("events", "p").stdout


APP = """
import os
import outlast as ol
from . import other

@ol.node
async def die_once() -> str:
    if ol.context().attempt == 1:
        os._exit(9)
    return other.WORD

@ol.workflow
async def of_a_module() -> str:
    return await die_once()

if __name__ == "__main__":
    with ol.open() as engine:
        engine.start(of_a_module.options(id="m")).result()
"""


@pytest.mark.parametrize("folder", ["", "src"])
@pytest.mark.parametrize("module", ["app.main", "app"])
def test_a_run_that_a_module_started_as_the_program_is_resumed(project: Any, folder: str, module: str) -> None:
    """`python -m app.main`, also where the package lies in another folder than the project's file."""
    package = project.folder / folder / "app"
    package.mkdir(parents=True)
    for name, text in {
        "__init__": "",
        "other": "WORD = 'done'",
        "__main__" if module == "app" else "main": APP,
    }.items():
        (package / f"{name}.py").write_text(text)
    started = subprocess.run([sys.executable, "-m", module], cwd=package.parent, env=project.environment, check=False)
    assert started.returncode == 9
    outlast = Path(sys.executable).with_name("outlast")
    ran = subprocess.run(
        [outlast, "resume", "m"], cwd=project.folder, env=project.environment, capture_output=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, b"done\n"), ran.stderr.decode()


def test_a_module_that_is_gone_is_named_as_what_to_give(project: Any) -> None:
    package = project.folder / "app"
    package.mkdir()
    for name, text in {"__init__": "", "other": "WORD = 'done'", "main": APP}.items():
        (package / f"{name}.py").write_text(text)
    subprocess.run([sys.executable, "-m", "app.main"], cwd=project.folder, env=project.environment, check=False)
    package.rename(project.folder / "away")
    ran = project("resume", "m")
    assert ran.returncode == 2
    assert "no module named app.main;" in ran.stderr
    assert "--app app.main" in ran.stderr


def test_a_resume_can_be_interrupted_and_resumed(project: Any) -> None:
    interrupted(project, signal.SIGKILL, "run", "flows:passing", "--id", "p")
    code, said = interrupted(project, signal.SIGINT, "resume", "p")
    assert (code, "run p is paused" in said) == (130, True)
    (project.folder / "open").touch()
    assert project("resume", "p").stdout == "through\n"


def test_several_runs_are_resumed_by_a_pipe(project: Any) -> None:
    for name in ("a", "b", "c"):
        project("run", "flows:fragile", "--id", name)
    (project.folder / "repaired").touch()
    pipe = "$OUTLAST ps --status failed -o ids | xargs $OUTLAST resume -o json"
    environment = {**project.environment, "OUTLAST": " ".join(project.command())}
    ran = subprocess.run(pipe, shell=True, cwd=project.folder, env=environment, capture_output=True, timeout=30)
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert ran.returncode == 0, ran.stderr
    assert sorted(each["run"] for each in told) == ["a", "b", "c"]
    assert {each["status"] for each in told} == {"completed"}
    assert noted(project) == ["before"] * 3


def test_a_failed_run_goes_on_once_the_cause_is_gone(project: Any) -> None:
    project("run", "flows:fragile", "--id", "f")
    assert project("resume", "f").returncode == 4
    (project.folder / "repaired").touch()
    ran = project("resume", "f")
    assert (ran.returncode, ran.stdout) == (0, "whole\n")
    assert noted(project) == ["before"]


def test_a_failed_node_is_retried_by_name_or_without(project: Any) -> None:
    for name, node in (("f", []), ("g", ["wants_repair"])):
        (project.folder / "repaired").unlink(missing_ok=True)
        project("run", "flows:fragile", "--id", name)
        (project.folder / "repaired").touch()
        assert project("retry", name, *node).stdout == "whole\n"


def test_an_unrepeatable_node_holds_its_run_until_a_person_says_so_again(project: Any) -> None:
    interrupted(project, signal.SIGKILL, "run", "flows:delicate", "--id", "d")
    ran = project("resume", "d")
    assert ran.returncode == 5
    assert "run d is held in node once_only: a person must decide" in ran.stderr
    assert "outlast resume d; or cancel it: outlast cancel d" in ran.stderr
    assert json.loads(project("show", "d", "-o", "json").stdout)["held"] is True
    (project.folder / "open").touch()
    assert project("resume", "d").stdout == "once\n"


def test_the_doctor_says_that_an_unrepeatable_node_will_hold_its_run_and_that_it_does(project: Any) -> None:
    interrupted(project, signal.SIGKILL, "run", "flows:delicate", "--id", "d")
    looked = project("doctor", "d").stdout
    assert "outlast resume d and outlast doctor --fix take it over and hold it" in looked
    assert "continues it in this terminal" not in looked
    fixed = project("doctor", "d", "--fix").stdout
    assert json.loads(project("show", "d", "-o", "json").stdout)["held"] is True
    assert "outlast retry d once_only repeats it" in fixed
    assert "outlast cancel d ends the run" in fixed


def test_the_doctor_says_what_a_workflow_that_is_to_be_held_comes_to(project: Any) -> None:
    interrupted(project, signal.SIGKILL, "run", "flows:careful", "--id", "c")
    looked = project("doctor", "c").stdout
    assert "outlast resume c continues it in this terminal" in looked
    assert "outlast doctor --fix takes it over and holds it, because its workflow has" in looked
    assert json.loads(project("doctor", "c", "--fix", "-o", "json").stdout)["runs"][0]["held"]


def test_a_pipe_of_failed_runs_resumes_none_that_waits_for_a_person(project: Any) -> None:
    interrupted(project, signal.SIGKILL, "run", "flows:delicate", "--id", "d")
    project("resume", "d")
    assert project("ps", "--status", "failed", "-o", "ids").stdout == ""
    assert project("ps", "--status", "held", "-o", "ids").stdout == "d\n"


def test_a_run_that_is_to_be_held_after_a_crash_goes_on_when_it_is_resumed(project: Any) -> None:
    interrupted(project, signal.SIGKILL, "run", "flows:careful", "--id", "c")
    (project.folder / "open").touch()
    ran = project("resume", "c")
    assert (ran.returncode, ran.stdout) == (0, "through\n"), ran.stderr
    assert noted(project) == ["before"]


def test_a_resume_outweighs_the_setting_that_holds_interrupted_runs(project: Any) -> None:
    project.write("outlast.toml", 'on_restart = "hold"\n')
    interrupted(project, signal.SIGKILL, "run", "flows:passing", "--id", "p")
    (project.folder / "open").touch()
    assert project("resume", "p").stdout == "through\n"


def test_no_wait_only_reopens_the_run(project: Any) -> None:
    project("run", "flows:fragile", "--id", "f")
    ran = project("resume", "f", "--no-wait", "-o", "json")
    assert (ran.returncode, json.loads(ran.stdout)["resumed"]) == (0, True)
    (project.folder / "repaired").touch()
    assert project("resume", "f").stdout == "whole\n"


@contextmanager
def waiting_resume(project: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A resume of a run that another worker has, once it has said for whom it waits."""
    said = project.folder / "said"
    with said.open("wb") as stderr, project.begun("resume", "p", stderr=stderr) as process:
        project.until(lambda: " executes run p: waiting for it" in said.read_text())
        yield process


def test_a_resume_that_waits_for_a_worker_goes_on_when_that_worker_is_killed(project: Any) -> None:
    """P2"""
    with project.begun("run", "flows:passing", "--id", "p") as first:
        project.until_there("at-the-gate")
        with waiting_resume(project) as second:
            first.kill()
            (project.folder / "open").touch()
            out, _ = second.communicate(timeout=30)
    assert (second.returncode, out) == (0, b"through\n")
    assert noted(project) == ["before"]


def test_a_resume_waits_for_a_run_that_a_live_worker_advances(project: Any) -> None:
    with project.begun("run", "flows:passing", "--id", "p") as first:
        project.until_there("at-the-gate")
        with waiting_resume(project) as second:
            (project.folder / "open").touch()
            out, _ = second.communicate(timeout=30)
        assert (first.wait(30), second.returncode, out) == (0, 0, b"through\n")
    assert "RunTakenOver" not in project("events", "p", "-o", "json").stdout


@pytest.mark.parametrize("names", [("done", "f"), ("f", "done")])
def test_a_run_of_several_that_is_refused_is_named_and_the_others_go_on(names: tuple[str, str], project: Any) -> None:
    project("run", "flows:greet", "name=Ann", "--id", "done")
    project("run", "flows:fragile", "--id", "f")
    (project.folder / "repaired").touch()
    ran = project("resume", *names)
    assert (ran.returncode, ran.stdout) == (2, "whole\n")
    assert "run done is completed: there is nothing to resume" in ran.stderr


def test_a_run_of_several_that_is_refused_keeps_none_from_being_reopened(project: Any) -> None:
    project("run", "flows:greet", "name=Ann", "--id", "done")
    project("run", "flows:fragile", "--id", "f")
    ran = project("resume", "done", "f", "--no-wait", "-o", "ids")
    assert (ran.returncode, ran.stdout) == (2, "f\n")
    assert "run done is completed: there is nothing to resume" in ran.stderr


# --- where the code comes from


def moved_away(project: Any) -> None:
    (project.folder / "flows.py").rename(project.folder / "elsewhere.py")


def test_code_that_is_not_found_is_said_and_the_run_is_untouched(project: Any) -> None:
    project("run", "flows:fragile", "--id", "f")
    before = project("events", "f", "-o", "json").stdout
    moved_away(project)
    for command in ("resume", "retry"):
        ran = project(command, "f")
        assert (ran.returncode, ran.stdout) == (2, "")
        assert "no module named flows" in ran.stderr
    assert project("events", "f", "-o", "json").stdout == before


@pytest.mark.parametrize("app", ["elsewhere", "elsewhere.py"])
def test_code_is_found_in_the_app_that_is_named(app: str, project: Any) -> None:
    project("run", "flows:fragile", "--id", "f")
    moved_away(project)
    (project.folder / "repaired").touch()
    assert project("resume", "f", "--app", app).stdout == "whole\n"


def test_code_is_found_in_the_apps_of_the_settings(project: Any) -> None:
    project("run", "flows:fragile", "--id", "f")
    moved_away(project)
    project.write("outlast.toml", 'apps = ["elsewhere"]\n')
    (project.folder / "repaired").touch()
    assert project("resume", "f").stdout == "whole\n"


def test_code_is_found_where_the_run_was_started_from_any_folder(project: Any) -> None:
    project("run", "flows:fragile", "--id", "f")
    (project.folder / "repaired").touch()
    other = project.folder / "other"
    other.mkdir()
    (other / "outlast.toml").touch()
    ran = project("resume", "f", "--store", str(project.folder / ".outlast" / "runs.db"), folder=other)
    assert ran.returncode == 4  # its node looks for the repair in the folder it runs in
    assert "outlast resume f --store" in ran.stderr


def filed(project: Any, *folders: str) -> None:
    """The workflows in other folders, as `nightly.py`, and a stranger of that name in the project's."""
    for folder in folders:
        (project.folder / folder).mkdir()
        (project.folder / folder / "nightly.py").write_text((project.folder / "flows.py").read_text())
    project.write(
        "nightly.py", "import outlast as ol\n@ol.workflow\nasync def fragile() -> str:\n    return 'a stranger'\n"
    )


def test_code_is_found_in_the_file_the_run_was_started_from(project: Any) -> None:
    filed(project, "jobs")
    project("run", "jobs/nightly.py:fragile", "--id", "f")
    (project.folder / "repaired").touch()
    ran = project("resume", "f")
    assert (ran.returncode, ran.stdout) == (0, "whole\n"), ran.stderr


def test_code_is_found_beside_the_file_the_run_was_started_from(project: Any) -> None:
    filed(project, "jobs")
    (project.folder / "jobs" / "tonight.py").write_text("from nightly import fragile\n")
    project("run", "jobs/tonight.py:fragile", "--id", "f")
    (project.folder / "repaired").touch()
    assert project("resume", "f").stdout == "whole\n"


def test_code_is_found_in_the_folder_the_run_was_started_from(project: Any) -> None:
    filed(project, "jobs")
    project("run", "nightly:fragile", "--id", "f", folder=project.folder / "jobs")
    (project.folder / "repaired").touch()
    assert project("resume", "f").stdout == "whole\n"


def test_another_module_of_the_same_name_does_not_stand_for_a_file_that_is_gone(project: Any) -> None:
    filed(project, "jobs")
    project("run", "jobs/nightly.py:fragile", "--id", "f")
    (project.folder / "jobs" / "nightly.py").unlink()
    ran = project("resume", "f")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"no such file: {project.folder / 'jobs' / 'nightly.py'}" in ran.stderr


def test_code_is_found_in_a_project_that_was_moved(project: Any) -> None:
    before = project.folder / "before"
    (before / "jobs").mkdir(parents=True)
    (before / "outlast.toml").touch()
    (project.folder / "flows.py").rename(before / "jobs" / "nightly.py")
    project("run", "jobs/nightly.py:fragile", "--id", "f", folder=before)
    after = before.rename(project.folder / "after")
    (after / "repaired").touch()
    assert project("resume", "f", folder=after).stdout == "whole\n"


# --- mistakes


@pytest.mark.parametrize("command", ["resume", "retry", "pause", "cancel", "answer", "show", "logs"])
def test_an_unknown_run_and_a_missing_store_are_said_and_nothing_is_made(command: str, project: Any) -> None:
    ran = project(command, "nobody")
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "there is no store at" in ran.stderr
    assert not (project.folder / ".outlast").exists()
    project("run", "flows:nothing", "--id", "n")
    ran = project(command, "nobody")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "there is no run nobody" in ran.stderr


def test_a_run_that_is_over_is_not_resumed(project: Any) -> None:
    project("run", "flows:nothing", "--id", "n")
    ran = project("resume", "n")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "run n is completed: there is nothing to resume" in ran.stderr


def test_a_node_that_is_not_there_is_not_retried(project: Any) -> None:
    project("run", "flows:fragile", "--id", "f")
    ran = project("retry", "f", "nobody")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "this branch has no node 'nobody'" in ran.stderr


def test_cancel_ends_what_nobody_works_on_and_names_what_is_over(project: Any) -> None:
    interrupted(project, signal.SIGKILL, "run", "flows:passing", "--id", "p")
    project("run", "flows:nothing", "--id", "n")
    ran = project("cancel", "n", "p", "--reason", "a test", "--by", "zoe", "-o", "json")
    assert ran.returncode == 2
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [{"run": "p", "status": "cancelled"}]
    assert "run n is over and cannot be cancelled" in ran.stderr
    assert "by zoe: a test" in project("events", "p").stdout
    assert project("cancel", "p").returncode == 2
