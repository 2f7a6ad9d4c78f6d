"""The commands and the output of `outlast --help`. The module of a command is imported when the command is used."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from outlast import __version__
from outlast.cli.command import Command, Group
from outlast.cli.options import ProfileOption, ServerOption, StoreOption, flags_of

COMMANDS = {
    "run": ("outlast.cli.run:run", "Run a workflow and print its result."),
    "ps": ("outlast.cli.ps:ps", "List runs, the newest first."),
    "show": ("outlast.cli.show:show", "Show a run: status, nodes, waits, error, useful actions."),
    "explain": ("outlast.cli.explain:explain", "Explain a run: timeline, state, problems, useful commands."),
    "events": ("outlast.cli.events:events", "Show the events of a run."),
    "branches": ("outlast.cli.branches:branches", "Show the branches of a run as a tree."),
    "compare": ("outlast.cli.compare:compare", "Compare two runs, or two branches of a run."),
    "logs": ("outlast.cli.logs:logs", "Show the log lines of the nodes of a run."),
    "answer": ("outlast.cli.answer:answer", "Answer a question of a run."),
    "pause": ("outlast.cli.stop:pause", "Pause runs."),
    "start": ("outlast.cli.resume:start", "Start runs that were created with --no-start."),
    "resume": ("outlast.cli.resume:resume", "Resume runs that were interrupted, failed, held or paused."),
    "retry": ("outlast.cli.resume:retry", "Repeat a node and continue from there."),
    "jump": ("outlast.cli.resume:jump", "Go back to an event, node or question, on a new branch."),
    "rewind": ("outlast.cli.resume:rewind", "Repeat the last completed nodes, on a new branch."),
    "activate": ("outlast.cli.resume:activate", "Continue from the end of an older branch."),
    "fork": ("outlast.cli.resume:fork", "Start a new run with the history of another."),
    "cancel": ("outlast.cli.stop:cancel", "Cancel runs."),
    "delete": ("outlast.cli.delete:delete", "Delete runs that have ended."),
    "prune": ("outlast.cli.delete:prune", "Delete the runs that ended long ago."),
    "bulk": ("outlast.cli.bulk:app", "Act on all runs that match a filter."),
    "worker": ("outlast.cli.worker:worker", "Execute runs until stopped."),
    "workers": ("outlast.cli.worker:workers", "List the workers of a store."),
    "sweeper": ("outlast.cli.worker:sweeper", "Find runs without a worker and make them ready."),
    "login": ("outlast.cli.login:login", "Keep the token for a server."),
    "logout": ("outlast.cli.login:logout", "Forget the token for a server."),
    "serve": ("outlast.cli.serve:serve", "Serve the HTTP API, and advance runs."),
    "dev": ("outlast.cli.serve:dev", "Serve for development, with reload."),
    "token": ("outlast.cli.tokens:tokens", "Create, list and revoke tokens of the server."),
    "audit": ("outlast.cli.audit:audit", "Show what was changed through the server."),
    "doctor": ("outlast.cli.doctor:doctor", "Diagnose runs, and repair them with --fix."),
    "verify": ("outlast.cli.verify:verify", "Verify logs: every invariant and every digest."),
    "versions": ("outlast.cli.versions:app", "List and compare versions of workflows."),
    "migrate": ("outlast.cli.versions:migrate", "Move a run to the current code."),
    "export": ("outlast.cli.export:export", "Write runs as JSON lines."),
    "copy": ("outlast.cli.copy:copy", "Copy runs to another store, where they continue."),
    "init": ("outlast.cli.init:init", "Create a project with a first workflow."),
    "db": ("outlast.cli.db:app", "Inspect, back up and upgrade the store."),
    "config": ("outlast.cli.config:app", "Show the settings in force."),
}
"""The function of each command, and its line in the list of commands."""


class Commands(Group):
    """All commands. Listing them imports none."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        found = getattr(import_module(module), name)
        if not isinstance(found, typer.Typer):
            one = typer.Typer(add_completion=False, rich_markup_mode=None)
            one.command(cls=Command)(found)
            found = one
        return get_command(found)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        from outlast.cli.entrypoint import EXIT_CODES

        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])


app = typer.Typer(
    name="outlast",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"outlast {__version__}")
        raise typer.Exit


@app.callback()
def outlast(
    ctx: typer.Context,
    store: StoreOption = None,
    server: ServerOption = None,
    profile: ProfileOption = None,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Run, inspect and resume durable workflows.

    The store is the value of --store, else of the variable OUTLAST_STORE, else
    of outlast.toml or pyproject.toml in the project of the current folder, else
    .outlast/runs.db in that project.

    With --server or --profile, or the variable OUTLAST_URL or OUTLAST_PROFILE,
    commands use a server instead.
    """
    ctx.obj = flags_of(store, server, profile)
