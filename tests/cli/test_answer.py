"""Questions of runs are answered by `outlast answer`, or at the terminal that waits for the run."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from outlast.cli.questions import expected, parsed
from outlast.errors import InvalidInput
from support import commands


@contextmanager
def asked(project: Any, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run that asks something, and the command that waits for it."""
    with project.begun("run", *arguments) as process:
        project.until(lambda: project("answer", "q").stderr.find("outlast answer") >= 0)
        yield process


def test_an_answer_lets_the_run_go_on_in_the_process_that_waits_for_it(project: Any) -> None:
    with asked(project, "flows:asking", "--id", "q") as process:
        assert project("answer", "q", "--yes").stderr.strip() == "run q: “Shall we?” is answered"
        project.until(lambda: "How many?" in project("show", "q").stdout)
        told = json.loads(project("answer", "q", "12", "--by", "zoe", "-o", "json").stdout)
        assert told == {"run": "q", "interaction": "ask", "answer": 12}
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, b"True 12\n")
    assert "run q asks: Shall we?\nAnswer with: outlast answer q --yes|--no\n" in err.decode()
    assert "by zoe" in project("events", "q").stdout


def test_an_answer_while_nobody_works_on_the_run_is_kept_for_whoever_resumes_it(project: Any) -> None:
    with asked(project, "flows:asking", "--id", "q") as process:
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    assert project("answer", "q", "no").returncode == 0
    with project.begun("resume", "q") as process:
        project.until(lambda: "How many?" in project("show", "q").stdout)
        assert project("answer", "q", "--json", "3").returncode == 0
        out, _ = process.communicate(timeout=30)
    assert out == b"False 3\n"


def test_wrong_answers_and_second_ones_are_refused(project: Any) -> None:
    with asked(project, "flows:asking", "--id", "q"):
        for arguments, told in (
            (("perhaps",), "of type boolean, not 'perhaps' (expected yes or no)"),
            (("--json", "{"), "--json is not JSON"),
            (("--json", "12"), "of type boolean, not 12"),
            (("yes", "--no"), "give one answer"),
            (("yes", "--interaction", "other"), "does not ask 'other'; it asks:\n  run q, approve: Shall we?"),
            ((), "“Shall we?” requires yes or no: outlast answer q --yes|--no"),
        ):
            ran = project("answer", "q", *arguments)
            assert (ran.returncode, ran.stdout) == (2, "")
            assert told in ran.stderr
            assert "Traceback" not in ran.stderr
        assert project("answer", "q", "yes", "--interaction", "approve").returncode == 0
        twice = project("answer", "q", "yes", "--interaction", "approve")
        assert twice.returncode == 2
        assert "question 'approve' of run q is already answered" in twice.stderr


def test_of_several_questions_one_has_to_be_named(project: Any) -> None:
    with project.begun("run", "flows:asking_twice", "--id", "q") as process:
        project.until(lambda: "run q has several open questions" in project("answer", "q", "x").stderr)
        refusal = project("answer", "q", "x").stderr
        names = [line.split()[2].rstrip(":") for line in refusal.splitlines()[1:]]
        for name in names:
            assert project("answer", "q", f"for {name}", "-i", name).returncode == 0
        out, _ = process.communicate(timeout=30)
    assert out.decode() == " ".join(f"for {name}" for name in names) + "\n"


def test_the_whole_question_stands_where_it_is_decided_and_a_list_marks_its_cut(project: Any) -> None:
    with asked(project, "flows:drafting", "--id", "q") as process:
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    assert "  line 39 of the draft\n    THE END" in project("show", "q").stdout
    explained = project("explain", "q").stdout
    assert (
        next(line for line in explained.splitlines() if line.startswith("now  Waits for"))
        .split(", for ")[0]
        .endswith("THE END”")
    )
    assert "THE END" in project("answer", "q").stderr
    for command in ("ps", "events"):
        told = project(command, *(["q"] if command == "events" else [])).stdout
        assert "Publish this?" in told
        assert "THE END" not in told
        assert "…" in told


def test_an_answer_for_a_parent_says_which_run_took_it(project: Any) -> None:
    with project.begun("run", "flows:asking_below", "--id", "q") as process:
        project.until(lambda: "Publish this?" in project("ps").stdout)
        said = project("answer", "q", "yes", "-o", "ids")
        assert said.returncode == 0, said.stderr
        assert said.stdout.strip() != "q"
        out, _ = process.communicate(timeout=30)
    assert out == b"true\n"


def test_an_answer_is_taken_exactly_or_refused(project: Any) -> None:
    large = 123456789012345678901234567890
    deep = "[" * 10_000 + "]" * 10_000
    with project.begun("run", "flows:asking_for_counts", "--id", "q", "-o", "json") as process:
        project.until(lambda: "How many" in project("ps").stdout)
        for arguments, told in (
            (("--json", '{"a": 1, "a": 2}'), "--json: the key 'a' appears twice in one JSON object"),
            (('{"a": {"b": 1, "b": 2}}',), "the answer: the key 'b' appears twice in one JSON object"),
            (("--json", deep), "--json: the JSON is nested too deeply"),
            ((deep,), "the answer: the JSON is nested too deeply"),
        ):
            ran = project("answer", "q", *arguments)
            assert (ran.returncode, told in ran.stderr, "Traceback" in ran.stderr) == (2, True, False), ran.stderr
        said = project("answer", "q", "--json", f'{{"a": {large}}}', "-o", "json")
        assert (said.returncode, json.loads(said.stdout)["answer"]) == (0, {"a": large}), said.stderr
        out, _ = process.communicate(timeout=30)
    assert json.loads(out)["result"] == {"a": large}
    assert json.loads(project("show", "q", "-o", "json").stdout)["result"] == {"a": large}
    assert str(large) in project("show", "q").stdout
    assert str(large) in project("events", "q").stdout


def test_a_run_that_is_over_takes_no_answer(project: Any) -> None:
    project("run", "flows:nothing", "--id", "n")
    ran = project("answer", "n", "yes")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "run n is completed and accepts no answers" in ran.stderr


@pytest.mark.parametrize(
    ("text", "schema", "meant"),
    [
        ("42", {"type": "string"}, "42"),
        ('"x"', {"type": "string"}, '"x"'),
        ("42", {"type": "integer"}, 42),
        ("Yes", {"type": "boolean"}, True),
        ("off", {"type": "boolean"}, False),
        ("true", {"type": "boolean"}, True),
        ("null", {"anyOf": [{"type": "string"}, {"type": "null"}]}, None),
        ("nobody", {"anyOf": [{"type": "string"}, {"type": "null"}]}, "nobody"),
        ("red", {"$ref": "#/$defs/C", "$defs": {"C": {"enum": ["red", "blue"]}}}, "red"),
        ("1", {"enum": [1, 2]}, 1),
        ("[1, 2]", {"type": "array", "items": {"type": "integer"}}, [1, 2]),
        ('{"a": 1}', {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": 1}),
        ("free", None, "free"),
        ("7", None, 7),
    ],
)
def test_a_typed_text_means_what_the_question_wants(text: str, schema: Any, meant: Any) -> None:
    assert parsed(text, schema) == meant


@pytest.mark.parametrize(
    ("text", "schema", "told"),
    [
        ("many", {"type": "integer"}, "a whole number"),
        ("", {"type": "boolean"}, "yes or no"),
        ("green", {"enum": ["red", "blue"]}, "one of red, blue"),
        ("[1, true]", {"type": "array", "items": {"type": "integer"}}, "item 1"),
        ("{}", {"type": "object", "properties": {"a": {}}, "required": ["a"]}, "a JSON object with a"),
    ],
)
def test_a_text_that_does_not_fit_is_refused_with_what_is_wanted(text: str, schema: Any, told: str) -> None:
    with pytest.raises(InvalidInput, match=told.replace("[", r"\[")):
        parsed(text, schema)


def test_what_is_wanted_is_said_without_effect_on_the_terminal() -> None:
    said = expected({"anyOf": [{"enum": ["\x1b[2J"]}, {"type": "string", "format": "\x07date"}, {"type": "null"}]})
    assert said.isprintable()


# --- at a terminal


class Terminal:
    """A terminal with a command in it: what was shown so far, without colours, and a keyboard."""

    def __init__(self, project: Any, *arguments: str, term: str = "xterm") -> None:
        self._project = project
        self.shown = ""
        self._master, slave = pty.openpty()
        os.set_blocking(self._master, False)
        environment = {**project.environment, "COLUMNS": "100", "LINES": "30", "TERM": term}
        self.process = commands.Popen(
            project.command(*arguments), cwd=project.folder, env=environment, stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def until(self, text: str) -> None:
        self._project.until(lambda: self._read() or text in self.shown)

    def end(self) -> int:
        self._project.until(lambda: self._read() or self.process.poll() is not None)
        self._read()
        return int(self.process.returncode)

    def _read(self) -> None:
        try:
            while data := os.read(self._master, 65536):
                self.shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.shown + data.decode(errors="replace"))
        except OSError:  # nothing now, or nobody there any more
            return


def test_a_question_is_put_to_whoever_waits_at_a_terminal(project: Any) -> None:
    with Terminal(project, "run", "flows:asking", "--id", "q") as terminal:
        terminal.until("(yes or no) > ")
        terminal.type("perhaps\n")
        terminal.until("not 'perhaps'")
        terminal.type("y\n")
        terminal.until("(a whole number) > ")
        terminal.type("12\n")
        assert terminal.end() == 0
    assert "Shall we?" in terminal.shown
    assert "True 12" in terminal.shown


def test_a_question_that_is_answered_elsewhere_is_no_longer_asked(project: Any) -> None:
    with Terminal(project, "run", "flows:asking", "--id", "q") as terminal:
        terminal.until("(yes or no) > ")
        assert project("answer", "q", "--no").returncode == 0
        terminal.until("answered elsewhere")
        terminal.until("(a whole number) > ")
        terminal.type("\x04")
        terminal.until("Answer with: outlast answer q VALUE")
        assert project("answer", "q", "5").returncode == 0
        assert terminal.end() == 0
    assert "False 5" in terminal.shown


def test_ctrl_c_at_a_question_leaves_the_run_resumable(project: Any) -> None:
    with Terminal(project, "run", "flows:asking", "--id", "q") as terminal:
        terminal.until("(yes or no) > ")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
    assert "Resume it: outlast resume q" in terminal.shown


def test_answer_without_a_value_asks_at_a_terminal(project: Any) -> None:
    with asked(project, "flows:asking", "--id", "q"), Terminal(project, "answer", "q") as terminal:
        terminal.until("(yes or no) > ")
        terminal.type("yes\n")
        assert terminal.end() == 0
    assert "is answered" in terminal.shown


def test_at_a_terminal_the_run_is_shown_while_it_goes_on(project: Any) -> None:
    with Terminal(project, "run", "flows:passing", "--id", "p") as terminal:
        terminal.until("1 done, 1 running")
        terminal.until("running gate")
        terminal.until("1 of 4")
        terminal.until("standing there")
        (project.folder / "open").touch()
        assert terminal.end() == 0
    assert "through" in terminal.shown


def test_the_list_stays_on_the_screen_until_ctrl_c(project: Any) -> None:
    project("run", "flows:nothing", "--id", "first")
    with Terminal(project, "ps", "--watch") as terminal:
        terminal.until("first")
        project("run", "flows:nothing", "--id", "second")
        terminal.until("second")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 0
    assert "Traceback" not in terminal.shown


@pytest.mark.parametrize("form", ["json", "ids"])
def test_a_list_for_programs_is_not_watched(form: str, project: Any) -> None:
    project("run", "flows:nothing", "--id", "first")
    with Terminal(project, "ps", "--watch", "-o", form) as terminal:
        assert terminal.end() == 2
    assert f"--watch and -o {form} exclude each other" in terminal.shown


def test_a_list_is_not_watched_where_nothing_can_be_drawn(project: Any) -> None:
    project("run", "flows:nothing", "--id", "first")
    with Terminal(project, "ps", "--watch", term="dumb") as terminal:
        assert terminal.end() == 2
    assert "TERM=dumb" in terminal.shown


@pytest.mark.parametrize("is_kept", [False, True])
def test_what_nodes_print_is_shown_above_and_kept_if_that_is_set(is_kept: bool, project: Any) -> None:
    project.write("outlast.toml", f"capture_stdout = {str(is_kept).lower()}\n")
    with Terminal(project, "run", "flows:speaking", "--id", "s") as terminal:
        terminal.until("loud and clear")
        terminal.until("running gate")
        (project.folder / "open").touch()
        assert terminal.end() == 0
    assert ("loud and clear" in project("logs", "s").stdout) is is_kept
