"""Commands print the same for a server as for its store."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from typer.testing import Result

from outlast.cli.options import login_name
from support.server_thread import ServerThread

Both = Callable[..., tuple[Result, Result]]


@pytest.fixture
def both(shell: Any, server: ServerThread) -> Both:
    """A command on the store, and the same on a server over it."""
    there = {"OUTLAST_URL": server.url, "OUTLAST_TOKEN": server.tokens["admin"]}

    def run(*words: str, **environment: str) -> tuple[Result, Result]:
        words = tuple(word.format(**shell.runs) for word in words)
        return shell(*words, **environment), shell(*words, **environment, **there)

    return run


READING = [
    "ps",
    "ps --status failed,waiting",
    "ps --status held",
    "ps --limit 2",
    "ps --text lamps",
    "ps --attribute customer=acme --sort -pages --columns customer,due",
    "ps --attribute pages>=10 --held",
    "ps --queue slow",
    "ps --workflow nothing",
    "show {order}",
    "show {payout} --verbose",
    "show {import}",
    "explain {report} --full",
    "explain {payout}",
    "events {report}",
    "events {report} --everything --after 3",
    "events {report} --node write --everything",
    "events {report} --branch 0",
    "branches {report}",
    "compare {report}",
    "compare {report}@0 {report}@1 --all --exit-code",
    "compare {digest} {import}",
    "logs {digest}",
    "verify {digest}",
    "verify --all",
    "doctor",
    "doctor --all",
    "doctor {payout} --fix --dry-run",
    "workers",
    "versions list digest",
]
PLANNED = ["jump {report} --to collect --dry-run", "rewind {report} --dry-run", "retry {digest} publish --dry-run"]
"""Their output has the name of the user, whose length decides where lines are wrapped."""
TABLES = ("ps", "events", "branches", "compare", "workers", "versions")
IDS = ("ps", "show", "events", "branches", "verify", "logs")


@pytest.mark.parametrize(
    ("command", "columns"), [*product(READING, ("", "80", "140")), *((each, "") for each in PLANNED)]
)
def test_text_is_the_same(command: str, columns: str, both: Both) -> None:
    here, there = both(*command.split(), COLUMNS=columns)
    assert (there.exit_code, _by_me(there.stdout)) == (here.exit_code, here.stdout)
    assert _without_cursor(there.stderr) == _without_cursor(here.stderr)
    if columns and command.split()[0] in TABLES:
        assert max(map(len, there.stdout.splitlines()), default=0) <= int(columns)


@pytest.mark.parametrize(
    "command", ["versions diff {digest} {import}", "versions diff {digest} nothing", "export {digest} {report}"]
)
def test_exports_and_differences_of_code_are_the_same(command: str, both: Both) -> None:
    here, there = both(*command.split())
    assert (there.exit_code, there.stdout, there.stderr) == (here.exit_code, here.stdout, here.stderr)


def _by_me(text: str) -> str:
    """The output with the name of the user for that of the token, which a server records."""
    return re.sub(r"admin \(token [0-9a-f]{16}\)", login_name(), text)


def _without_cursor(text: str) -> str:
    return text.partition("--after")[0]


@pytest.mark.parametrize("command", [*(each for each in READING if "--limit" not in each), *PLANNED])
def test_json_is_the_same(command: str, both: Both) -> None:
    here, there = both(*command.split(), "-o", "json")
    assert (there.exit_code, _by_me(there.stdout)) == (here.exit_code, here.stdout)


@pytest.mark.parametrize("command", [each for each in READING if each.split()[0] in IDS])
def test_ids_are_the_same(command: str, both: Both) -> None:
    here, there = both(*command.split(), "-o", "ids")
    assert (there.exit_code, _by_me(there.stdout)) == (here.exit_code, here.stdout)


@pytest.mark.parametrize(
    "command",
    [
        "show no-such-run",
        "show 0",
        "events {report} --branch 9",
        "cancel {digest}",
        "pause {digest}",
        "retry {digest} nothing",
    ],
)
def test_refusals_are_the_same_but_for_a_run_that_is_missing(command: str, both: Both) -> None:
    here, there = both(*command.split())
    assert (there.exit_code, _by_me(there.stdout)) == (here.exit_code, here.stdout)
    if "no-such-run" in command:
        assert "Workflow not found: the server http://127.0.0.1:" in there.stderr
    elif "retry" not in command:
        assert there.stderr == here.stderr


# --- what changes runs


def asked(shell: Any, server: ServerThread, *words: str, role: str = "admin", **environment: str) -> Result:
    there = {"OUTLAST_URL": server.url, "OUTLAST_TOKEN": server.tokens[role], **environment}
    return shell(*(word.format(**shell.runs) for word in words), **there)


def test_resume_says_what_was_resumed(shell: Any, server: ServerThread) -> None:
    answer = asked(shell, server, "resume", "{payout}")
    assert (answer.exit_code, answer.stderr.strip()) == (0, f"Workflow {shell.runs['payout']} resumed")


def test_resume_of_a_run_that_is_missing_or_over_is_refused(shell: Any, server: ServerThread) -> None:
    missing = asked(shell, server, "resume", "no-such-run")
    assert (missing.exit_code, "Workflow not found" in missing.stderr) == (2, True)
    over = asked(shell, server, "resume", "{digest}")
    assert over.exit_code == 2
    assert f"run {shell.runs['digest']} is completed" in over.stderr


def test_a_question_is_answered(shell: Any, server: ServerThread) -> None:
    question = asked(shell, server, "answer", "{approval}")
    assert (question.exit_code, "“Publish 12 pages?” requires" in question.stderr) == (2, True)
    answer = asked(shell, server, "answer", "{approval}", "--yes", "-o", "json")
    assert json.loads(answer.stdout) == {"run": shell.runs["approval"], "interaction": "q1", "answer": True}
    again = asked(shell, server, "answer", "{approval}", "--yes")
    assert (again.exit_code, "is already answered" in again.stderr) == (2, True)


def test_cancel_and_pause_print_the_same(shell: Any, server: ServerThread) -> None:
    paused = asked(shell, server, "pause", "{order}", "--reason", "lunch")
    assert paused.stderr.splitlines()[0] == f"run {shell.runs['order']} is paused"
    cancelled = asked(shell, server, "cancel", "{approval}", "-o", "json")
    here = shell("cancel", shell.runs["order"], "-o", "json")  # the same answer, of another run
    assert json.loads(cancelled.stdout).keys() == json.loads(here.stdout).keys()
    assert json.loads(cancelled.stdout)["run"] == shell.runs["approval"]


def test_the_log_names_the_token_as_the_user(shell: Any, server: ServerThread) -> None:
    asked(shell, server, "pause", "{order}")
    log = [json.loads(line) for line in shell("events", shell.runs["order"], "-o", "json").stdout.splitlines()]
    assert log[-1]["fields"]["by"].startswith("admin (token ")
    refused = asked(shell, server, "cancel", "{order}", "--by", "ann")
    assert (refused.exit_code, "omit --by" in refused.stderr) == (2, True)


def test_tokens_are_managed_over_http(shell: Any, server: ServerThread) -> None:
    made = asked(shell, server, "token", "create", "deploy", "--role", "operator", "-o", "json")
    document = json.loads(made.stdout)
    assert document["token"]["role"] == "operator"
    assert "deploy" in asked(shell, server, "token", "list").stdout
    assert asked(shell, server, "token", "revoke", document["token"]["id"]).exit_code == 0
    assert "deploy" not in asked(shell, server, "token", "list").stdout
    assert asked(shell, server, "token", "create", "mine", role="operator").exit_code == 3


# --- which server, and who


def test_a_server_that_does_not_run_is_named(shell: Any) -> None:
    answer = shell("ps", "--server", "http://127.0.0.1:9")
    assert answer.exit_code == 3
    first, advice = answer.stderr.strip().splitlines()
    assert first.startswith("outlast: Server not running: nothing answers at http://127.0.0.1:9 (")
    assert "outlast serve" in advice


@pytest.mark.parametrize("token", ["", "olt_0123456789abcdef_" + 43 * "A", "nonsense"])
def test_a_wrong_token_is_refused(token: str, shell: Any, server: ServerThread) -> None:
    answer = shell("ps", OUTLAST_URL=server.url, OUTLAST_TOKEN=token)
    assert answer.exit_code == 3
    assert "refused this: this needs a valid token or session" in answer.stderr
    assert "outlast login" in answer.stderr


def test_a_role_without_the_permission_is_refused(shell: Any, server: ServerThread) -> None:
    assert asked(shell, server, "ps", role="viewer").exit_code == 0
    answer = asked(shell, server, "cancel", "{order}", role="viewer")
    assert answer.exit_code == 3
    assert "role viewer does not have the permission runs:cancel" in answer.stderr
    assert asked(shell, server, "doctor", "--all", "--fix", role="viewer").exit_code == 3


def test_a_profile_names_the_server_and_its_token(shell: Any, server: ServerThread) -> None:
    text = f'[profiles.shop]\nurl = "{server.url}"\ntoken = "{server.tokens["viewer"]}"\n'
    (shell.folder / "outlast.toml").write_text(text)
    expected = shell("ps", "-o", "ids").stdout
    assert shell("ps", "-o", "ids", "--profile", "shop").stdout == expected
    assert shell("--profile", "shop", "ps", "-o", "ids").stdout == expected
    assert shell("ps", "-o", "ids", OUTLAST_PROFILE="shop").stdout == expected
    assert (
        f"resume {shell.runs['payout']} --profile shop"
        in shell("show", shell.runs["payout"], "--profile", "shop").stdout
    )
    assert shell("ps", "--profile", "market").exit_code == 2
    assert server.tokens["viewer"] not in shell("config", "show", OUTLAST_PROFILE="shop").stdout


def test_the_flag_is_part_of_the_commands_that_are_shown(shell: Any, server: ServerThread) -> None:
    answer = shell("show", shell.runs["payout"], "--server", server.url, OUTLAST_TOKEN=server.tokens["viewer"])
    assert f"outlast resume {shell.runs['payout']} --server {server.url}" in answer.stdout


def test_login_keeps_a_token_that_only_its_owner_can_read(shell: Any, server: ServerThread) -> None:
    from typer.testing import CliRunner

    from outlast.cli.app import app

    def login(token: str) -> Result:
        return CliRunner().invoke(app, ["login", "--server", server.url], input=f"{token}\n", prog_name="outlast")

    refused = login("nonsense")
    assert refused.exit_code == 3
    assert not (shell.folder / "config").exists()
    signed_in = login(server.tokens["viewer"])
    assert signed_in.exit_code == 0, signed_in.stderr
    assert f"signed in to {server.url} as viewer" in signed_in.stderr
    (file,) = (shell.folder / "config").rglob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert shell("ps", "--server", server.url).exit_code == 0
    file.chmod(0o644)
    assert f"chmod 600 {file}" in shell("ps", "--server", server.url).stderr
    file.chmod(0o600)
    assert shell("logout", "--server", server.url).exit_code == 0
    assert shell("ps", "--server", server.url).exit_code == 3
    assert shell("logout", "--server", server.url).exit_code == 2


def test_a_store_and_a_server_exclude_each_other_on_the_command_line(shell: Any, server: ServerThread) -> None:
    answer = shell("ps", "--server", server.url, "--store", "runs.db")
    assert (answer.exit_code, "exclude each other" in answer.stderr) == (2, True)
    assert shell("ps", "--store", "runs.db", OUTLAST_URL="http://127.0.0.1:9").exit_code == 0


ONLY_STORE = {
    "worker": ("worker", "where the store is"),
    "serve": ("serve", "where the store is"),
    "db info": ("db", "info"),
    "copy": ("copy", "--all", "--to", "other.db"),
    "token link": ("token", "link"),
}


@pytest.mark.parametrize("name", ONLY_STORE)
def test_commands_that_need_the_store_refuse_a_server_by_name(name: str, shell: Any, server: ServerThread) -> None:
    answer = asked(shell, server, *[word for word in ONLY_STORE[name] if " " not in word])
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert f"`outlast {name}` works on a store, and the environment OUTLAST_URL names a server:" in answer.stderr
    assert "or name a store with --store" in answer.stderr


def test_init_refuses_a_server(shell: Any) -> None:
    answer = shell("--server", "http://127.0.0.1:9", "init", "new")
    assert (answer.exit_code, "omit --server" in answer.stderr) == (2, True)
    assert not os.path.exists("new")


def test_help_names_the_options(shell: Any) -> None:
    for words in (["ps"], ["resume"], ["token", "create"], []):
        shown = shell(*words, "--help").stdout
        assert "--server" in shown
        assert "--profile" in shown
