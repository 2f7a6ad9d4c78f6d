"""The commands, and what `outlast --help` says."""

from __future__ import annotations

from typing import Annotated

import typer

from outlast import __version__
from outlast.cli import config, db, serve
from outlast.cli.answer import answer
from outlast.cli.branches import branches
from outlast.cli.cancel import cancel
from outlast.cli.command import Command, Group
from outlast.cli.compare import compare
from outlast.cli.copy import copy
from outlast.cli.doctor import doctor
from outlast.cli.entrypoint import EXIT_CODES
from outlast.cli.events import events
from outlast.cli.explain import explain
from outlast.cli.export import export
from outlast.cli.going_back import activate, fork, jump, rewind
from outlast.cli.init import init
from outlast.cli.logs import logs
from outlast.cli.options import StoreOption
from outlast.cli.pause import pause
from outlast.cli.ps import ps
from outlast.cli.resume import resume, retry
from outlast.cli.run import run
from outlast.cli.show import show
from outlast.cli.verify import verify
from outlast.cli.versions import diff, migrate, versions
from outlast.cli.worker import sweeper, worker, workers

app = typer.Typer(
    name="outlast",
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\n".join(["[bold]Exit codes[/bold]", *(f"{code:>3}  {meaning}" for code, meaning in EXIT_CODES.items())]),
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"outlast {__version__}")
        raise typer.Exit


@app.callback()
def outlast(
    ctx: typer.Context,
    store: StoreOption = None,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Workflows that cannot be lost: run them, look at them, go on with them.

    The store is the one that --store names, else the one in OUTLAST_STORE,
    else the one in outlast.toml or pyproject.toml of the project you are in,
    else .outlast/runs.db of that project.
    """
    ctx.obj = store


app.command(cls=Command)(run)
app.command(cls=Command)(ps)
app.command(cls=Command)(show)
app.command(cls=Command)(explain)
app.command(cls=Command)(events)
app.command(cls=Command)(branches)
app.command(cls=Command)(compare)
app.command(cls=Command)(logs)
app.command(cls=Command)(answer)
app.command(cls=Command)(pause)
app.command(cls=Command)(resume)
app.command(cls=Command)(retry)
app.command(cls=Command)(jump)
app.command(cls=Command)(rewind)
app.command(cls=Command)(activate)
app.command(cls=Command)(fork)
app.command(cls=Command)(cancel)
app.command(cls=Command)(worker)
app.command(cls=Command)(workers)
app.command(cls=Command)(sweeper)
app.command(cls=Command)(doctor)
app.command(cls=Command)(verify)
app.command(cls=Command)(versions)
app.command(cls=Command)(diff)
app.command(cls=Command)(migrate)
app.command(cls=Command)(export)
app.command(cls=Command)(copy)
app.command(cls=Command)(init)
serve.register(app)
app.add_typer(db.app, name="db")
app.add_typer(config.app, name="config")
