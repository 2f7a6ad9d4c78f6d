"""The standard streams of the command: closed, full, left by their reader, and shared with what nodes print (C1, C2)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 30
CHATTY = """
import subprocess
from pathlib import Path
import outlast as ol

@ol.node
def say(number: int) -> int:
    print("said", number, "x" * 10_000, flush=True)
    return number

@ol.node(run_in="process")
def say_elsewhere(number: int) -> int:
    print("elsewhere", number)
    return number

@ol.node
def start_a_program() -> None:
    subprocess.run(["echo", "a program"], check=True)

@ol.workflow
async def talk(times: int) -> int:
    print("workflow")
    for number in range(times):
        await say(number)
    return times

@ol.node
def look() -> str:
    print("looking")
    if not Path("mended").exists():
        raise ValueError("broken")
    return "whole"

@ol.workflow
async def mended() -> str:
    return await look()

@ol.workflow
async def every_way() -> str:
    await say(1)
    await say_elsewhere(2)
    await start_a_program()
    return "quiet"
"""
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")


@pytest.fixture
def chatty(project: Any) -> Any:
    project.write("chatty.py", CHATTY)
    project.write("loud.py", "from chatty import *\nprint('imported', flush=True)\n")
    return project


def in_shell(project: Any, line: str) -> subprocess.CompletedProcess[str]:
    """A line of a shell in which `$OUTLAST` is the command; the code is that of the first command of a pipe."""
    typed = line.replace("$OUTLAST", " ".join(project.command()))
    return subprocess.run(
        ["bash", "-c", f"{typed}; exit ${{PIPESTATUS[0]}}"],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )


def status(project: Any, run: str) -> str:
    return str(json.loads(project("show", run, "-o", "json").stdout)["status"])


# --- for programs


def test_with_json_only_ours_comes_to_stdout_whatever_the_code_prints(chatty: Any) -> None:
    ran = chatty("run", "loud:every_way", "-o", "json")
    assert json.loads(ran.stdout)["result"] == "quiet"


def test_with_json_what_the_code_prints_comes_to_stderr(chatty: Any) -> None:
    ran = chatty("run", "loud:every_way", "-o", "json")
    for text in ("imported", "said 1", "elsewhere 2", "a program"):
        assert text in ran.stderr


def test_with_ids_only_ids_come_to_stdout(chatty: Any) -> None:
    assert chatty("run", "chatty:talk", "times=1", "--id", "t", "-o", "ids").stdout == "t\n"


def test_a_resume_for_programs_keeps_prints_apart_too(chatty: Any) -> None:
    chatty("run", "chatty:mended", "--id", "t")
    (chatty.folder / "mended").touch()
    assert json.loads(chatty("resume", "t", "-o", "json").stdout)["result"] == "whole"


def test_for_people_prints_stay_on_stdout(chatty: Any) -> None:
    assert chatty("run", "chatty:talk", "times=1").stdout.startswith("workflow\nsaid 0")


# --- nobody reads on


def test_a_run_whose_prints_nobody_reads_completes_and_the_command_ends_with_141(chatty: Any) -> None:
    ran = in_shell(chatty, "$OUTLAST run chatty:talk times=300 --id t | head -1")
    assert (ran.returncode, status(chatty, "t")) == (141, "completed"), ran.stderr


def test_a_run_whose_remarks_nobody_reads_either_completes(chatty: Any) -> None:
    ran = in_shell(chatty, "$OUTLAST run chatty:talk times=300 --id t 2>&1 | head -1")
    assert (ran.returncode, status(chatty, "t")) == (141, "completed")


def test_a_run_whose_remarks_alone_nobody_reads_completes(chatty: Any) -> None:
    ran = in_shell(chatty, "{ $OUTLAST run chatty:talk times=3 --id t -o json > out; echo $? > code; } 2>&1 | true")
    assert (ran.stdout, (chatty.folder / "code").read_text()) == ("", "0\n")


@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("--version",)])
def test_help_that_nobody_reads_ends_with_141(words: tuple[str, ...], project: Any) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with project.begun(*words, stdout=writer, stderr=writer) as process:
        os.close(writer)
        assert process.wait(PATIENCE) == 141


# --- nothing can be written


@needs_full
@pytest.mark.parametrize("words", ["ps", "ps -o json", "ps -o ids", "verify --all", "show n", "export n", "--help"])
def test_output_that_does_not_fit_is_told_with_code_3(words: str, project: Any) -> None:
    project("run", "flows:nothing", "--id", "n")
    ran = in_shell(project, f"$OUTLAST {words} > /dev/full")
    assert (ran.returncode, ran.stderr) == (3, "outlast: the output could not be written: No space left on device\n")


def test_a_run_goes_to_its_end_without_stdout(chatty: Any) -> None:
    assert in_shell(chatty, "$OUTLAST run chatty:talk times=3 --id t >&-").returncode == 0
    assert status(chatty, "t") == "completed"


@needs_full
def test_a_run_whose_prints_do_not_fit_completes(chatty: Any) -> None:
    ran = in_shell(chatty, "$OUTLAST run chatty:talk times=300 --id t > /dev/full")
    assert (ran.returncode, status(chatty, "t")) == (3, "completed")


@needs_full
def test_a_module_whose_prints_do_not_fit_is_not_blamed(chatty: Any) -> None:
    ran = in_shell(chatty, "$OUTLAST run loud:talk times=3 > /dev/full")
    assert (ran.returncode, ran.stderr) == (3, "outlast: the output could not be written: No space left on device\n")


# --- nothing to read


def test_a_run_needs_no_stdin(project: Any) -> None:
    ran = in_shell(project, "$OUTLAST run flows:greet name=zoe <&-")
    assert (ran.returncode, ran.stdout) == (0, "hello zoe\n"), ran.stderr


def test_an_answer_without_stdin_says_how_to_give_it(project: Any) -> None:
    with project.begun("run", "flows:asking", "--id", "q"):
        project.until(lambda: "outlast answer" in project("answer", "q").stderr)
        ran = in_shell(project, "$OUTLAST answer q <&-")
    assert (ran.returncode, "outlast answer q --yes|--no" in ran.stderr) == (2, True)


def test_the_command_works_without_any_stream(project: Any) -> None:
    assert in_shell(project, "$OUTLAST run flows:nothing --id n <&- >&- 2>&-").returncode == 0
