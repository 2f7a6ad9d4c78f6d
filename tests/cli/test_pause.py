"""`outlast pause`, and what Ctrl+C and SIGTERM do to runs in the foreground."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import pytest

LONG = {"OUTLAST_GRACE": "60"}
SHORT = {"OUTLAST_GRACE": "0.05"}
PAUSING = "pausing… (Ctrl+C again to exit at once)"


def until_said(process: Any, words: str) -> str:
    """Read what a process says until it has said this."""
    said = b""
    while words.encode() not in said:
        piece = process.stderr.read(1)
        assert piece, said.decode()
        said += piece
    return said.decode()


def shown(project: Any, run: str) -> Any:
    return json.loads(project("show", run, "-o", "json").stdout)


@pytest.mark.parametrize(("how", "name", "code"), [(signal.SIGINT, "Ctrl+C", 130), (signal.SIGTERM, "SIGTERM", 143)])
def test_a_signal_pauses_the_run_at_its_checkpoint_and_tells_what_there_is(
    project: Any, how: signal.Signals, name: str, code: int
) -> None:
    project.environment |= LONG
    with project.begun("run", "flows:writing", "--id", "w") as process:
        project.until_there("at-the-gate")
        process.send_signal(how)
        until_said(process, PAUSING)
        (project.folder / "open").touch()
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (code, b"")
    said = [line.strip() for line in err.decode().splitlines() if line.strip()]
    assert said == [
        f"run w is paused ({name})",
        "Complete files:",
        "out/first.txt",
        "Partial files:",
        "out/second_interrupted.txt",
        "Resume it: outlast resume w; or cancel it: outlast cancel w",
    ]
    assert (project.folder / "out" / "second_interrupted.txt").read_text() == "half"
    ran = project("resume", "w")
    assert (ran.returncode, ran.stdout) == (0, "1\n")
    assert (project.folder / "out" / "second.txt").read_text() == "whole"
    files = {file["path"]: file["complete"] for file in shown(project, "w")["files"]}
    assert files == {"out/first.txt": True, "out/second.txt": True, "out/second_interrupted.txt": False}
    assert project("verify", "w").returncode == 0


def test_a_run_that_completes_within_the_grace_time_is_told_as_usual(project: Any) -> None:
    project.environment |= LONG
    with project.begun("run", "flows:passing", "--id", "p") as process:
        project.until_there("at-the-gate")
        process.send_signal(signal.SIGINT)
        until_said(process, PAUSING)
        (project.folder / "open").touch()
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, b"through\n")


def test_a_second_ctrl_c_leaves_at_once_and_the_log_is_good(project: Any) -> None:
    project.environment |= LONG
    with project.begun("run", "flows:stubbornly", "--id", "s") as process:
        project.until_there("at-the-gate")
        process.send_signal(signal.SIGINT)
        until_said(process, PAUSING)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "exited at once\nResume run s: outlast resume s" in err.decode()
    assert project("verify", "s").returncode == 0
    (project.folder / "open").touch()
    assert project("resume", "s").stdout == "ended\n"


def test_a_plain_node_that_does_not_look_is_left_behind(project: Any) -> None:
    project.environment |= SHORT
    with project.begun("run", "flows:stubbornly", "--id", "s") as process:
        project.until_there("at-the-gate")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, "run s is paused" in err.decode()) == (130, True)
    assert "stopped" in project("show", "s").stdout
    (project.folder / "open").touch()
    assert project("resume", "s").stdout == "ended\n"


def test_a_pause_that_stops_an_unrepeatable_node_holds_its_run(project: Any) -> None:
    project.environment |= SHORT
    with project.begun("run", "flows:delicate", "--id", "d") as process:
        project.until_there("at-the-gate")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 5
    assert "run d is held in node once_only: a person must decide" in err.decode()


def test_children_are_not_paused_and_go_on_with_their_parent(project: Any) -> None:
    project.environment |= LONG
    with project.begun("run", "flows:parenting", "--id", "p") as process:
        project.until_there("at-the-gate")
        process.send_signal(signal.SIGINT)
        until_said(process, PAUSING)
        (project.folder / "open").touch()
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "out/second_interrupted.txt" in err.decode()
    (child,) = shown(project, "p")["children"]
    assert shown(project, "p")["status"] == "paused"
    assert shown(project, child["run"])["status"] == "running"
    assert project("resume", "p").stdout == "1\n"
    assert project("verify", "--all").returncode == 0


def test_all_runs_that_are_resumed_together_are_paused_together(project: Any) -> None:
    project.environment |= SHORT
    for name in ("a", "b"):
        (project.folder / "at-the-gate").unlink(missing_ok=True)
        with project.begun("run", "flows:passing", "--id", name) as process:
            project.until_there("at-the-gate")
            process.kill()
    with project.begun("resume", "a", "b", "-o", "json") as process:
        project.until(lambda: [shown(project, name)["nodes"][-1]["attempt"] for name in "ab"] == [2, 2])
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    told = [json.loads(line) for line in out.splitlines()]
    assert (process.returncode, [(each["run"], each["status"]) for each in told]) == (
        130,
        [("a", "paused"), ("b", "paused")],
    )
    (project.folder / "open").touch()
    assert project("resume", "a", "b").returncode == 0


def test_pause_from_elsewhere_ends_the_command_that_waits(project: Any) -> None:
    project.environment |= LONG
    with project.begun("run", "flows:writing", "--id", "w") as process:
        project.until_there("at-the-gate")
        ran = project("pause", "w", "--reason", "lunch", "--by", "zoe")
        assert ran.returncode == 0
        assert "its worker will pause it" in ran.stderr
        (project.folder / "open").touch()
        _, err = process.communicate(timeout=30)
    assert (process.returncode, "run w is paused (lunch)" in err.decode()) == (7, True)
    assert "by zoe: lunch" in project("events", "w").stdout
    shown = project("show", "w").stdout
    assert "paused, lunch" in shown
    assert "\nnext\n  outlast resume w" in shown
    ran = project("pause", "w")
    assert (ran.returncode, ran.stderr) == (2, "outlast: run w is already paused\n")


def test_who_only_waits_for_a_run_of_another_process_does_not_pause_it(project: Any) -> None:
    project.environment |= SHORT
    with project.begun("run", "flows:passing", "--id", "p") as process:
        project.until_there("at-the-gate")
        with project.begun("run", "flows:passing", "--id", "p") as other:
            until_said(other, "run p of passing")
            time.sleep(0.2)  # it has nothing to do but to wait, so nothing tells when it has begun
            other.send_signal(signal.SIGINT)
            _, err = other.communicate(timeout=30)
        assert (other.returncode, "run p continues on another worker" in err.decode()) == (130, True)
        (project.folder / "open").touch()
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, b"through\n")


def test_pause_stops_what_nobody_works_on_and_names_what_cannot_be_paused(project: Any) -> None:
    with project.begun("run", "flows:passing", "--id", "p") as process:
        project.until_there("at-the-gate")
        process.kill()
    project("run", "flows:nothing", "--id", "n")
    ran = project("pause", "n", "p", "-o", "json")
    assert ran.returncode == 2
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [{"run": "p", "status": "paused"}]
    assert "run n is over and cannot be paused" in ran.stderr
    (project.folder / "open").touch()
    assert project("resume", "p").stdout == "through\n"
    assert project("verify", "--all").returncode == 0


def test_an_engine_in_a_program_of_ones_own_hijacks_no_signal(project: Any) -> None:
    project.write(
        "program.py",
        "import signal, outlast as ol\n"
        "before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]\n"
        "with ol.open('memory:') as engine:\n"
        "    assert before == [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]\n"
        "    print('its own', flush=True)\n"
        "    signal.pause()\n",
    )
    command, project.command = project.command, lambda *_: [command()[0], "program.py"]
    with project.begun() as process:
        assert process.stdout.readline() == b"its own\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == -signal.SIGTERM
