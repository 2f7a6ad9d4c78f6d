"""The start and the end of each command. Errors become messages and exit codes only here."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import typer

from outlast.cli import streams
from outlast.cli.console import notice
from outlast.cli.options import ProfileOption, ServerOption, StoreOption, settings_of, store_settings_of
from outlast.errors import (
    Damaged,
    InvalidInput,
    NotFound,
    NotPermitted,
    OutlastError,
    RunDeleted,
    ServerAway,
    ServerError,
    StoreError,
    StoreUnusable,
)

SOUND, VIOLATED, MISUSED, FAILED, INTERRUPTED, UNREAD, TERMINATED = 0, 1, 2, 3, 130, 141, 143
RUN_FAILED, RUN_HELD, RUN_CANCELLED, RUN_PAUSED = 4, 5, 6, 7
DIFFERS = VIOLATED
"""The code of `diff` for a difference. `compare` therefore ends with FAILED for a damaged log."""

EXIT_CODES = {
    SOUND: "success",
    VIOLATED: "a log is damaged or breaks an invariant; the doctor found a problem; `--exit-code` found a difference",
    MISUSED: "the command is wrong, or the run does not exist",
    FAILED: "the store or the server failed or could not be reached, or the output could not be written",
    RUN_FAILED: "the run failed",
    RUN_HELD: "the run is held: a person must decide",
    RUN_CANCELLED: "the run was cancelled",
    RUN_PAUSED: "the run was paused",
    INTERRUPTED: "interrupted by Ctrl+C; `run` and `resume` paused their runs",
    UNREAD: "the reader of the output closed it",
    TERMINATED: "ended by SIGTERM; `run` and `resume` paused their runs",
}


def command(
    function: Callable[..., Coroutine[Any, Any, int]],
    *,
    damaged: int = VIOLATED,
    store_only: str = "",
    loads_code: bool = False,
) -> Callable[..., None]:
    """A command for Typer, of a function that is called with the settings in force and returns its exit code as a
    coroutine. The options --store, --server and --profile are added; `store_only` is what to do instead if the command
    cannot use a server. With `loads_code`, the modules of --app and of the setting `apps` are imported before the loop
    starts, and so may a function that is not `async` block: on the loop, a first Ctrl+C would wait for its end."""

    def begin(
        ctx: typer.Context,
        store: str | None = None,
        server: str | None = None,
        profile: str | None = None,
        **given: Any,
    ) -> None:
        def called() -> Coroutine[Any, Any, int]:
            flags = {"store": store, "server": server, "profile": profile}
            settings = store_settings_of(ctx, store_only, **flags) if store_only else settings_of(ctx, **flags)
            if loads_code:
                from outlast.cli.code_import import load_here

                load_here(given.get("app") or (), settings)
            return function(settings, **(_for_server(ctx, given) if settings.url else given))

        carry_out(called, damaged=damaged)

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in (("store", StoreOption), ("server", ServerOption), ("profile", ProfileOption))
    ]
    at = next((place for place, each in enumerate(own) if each.name == "output"), len(own))
    parameters = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own[:at], *options, *own[at:], context)
    ]
    begin.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    begin.__annotations__ = {each.name: each.annotation for each in parameters}
    begin.__name__, begin.__doc__ = function.__name__, function.__doc__
    return begin


def _for_server(ctx: typer.Context, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a command that uses a server: it has the code, and records the name of the token as the user."""
    if given.get("app"):
        raise InvalidInput("--app: the server has the code of the runs: omit --app")
    if "by" not in given:
        return given
    source = ctx.get_parameter_source("by")
    if source is not None and source.name != "DEFAULT":
        raise InvalidInput("--by: a server records the name of the token as the user: omit --by")
    return given | {"by": ""}


def carry_out(begin: Callable[[], Coroutine[Any, Any, int]], *, damaged: int = VIOLATED) -> NoReturn:
    """Run a command to its exit code. `damaged` is the code for a damaged log. An output that cannot be written raises
    `Unwritable`."""
    try:
        code = asyncio.run(begin())
        streams.flush()
    except OutlastError as error:
        code = refused(error, damaged)
    except KeyboardInterrupt:
        notice("outlast: interrupted")
        code = INTERRUPTED
    raise typer.Exit(code)


def refused(error: OutlastError, damaged: int = VIOLATED) -> int:
    """Print an error; returns its exit code."""
    notice(f"outlast: {error}", advice(error), style="red")
    return damaged if isinstance(error, Damaged) and error.run else code_of(error)


def unwritten(trouble: streams.Unwritable) -> int:
    """The exit code of a command whose output could not be written. A reader that closed the output needs no message."""
    if trouble.is_unread:
        return UNREAD
    notice(f"outlast: {trouble}", style="red")
    return FAILED


def code_of(error: OutlastError) -> int:
    """Damage in the log of a run is a finding; a store that cannot be read is a failure."""
    if isinstance(error, Damaged):
        return VIOLATED if error.run else FAILED
    return FAILED if isinstance(error, StoreError | ServerError) else MISUSED


def advice(error: OutlastError) -> str:
    """What to do about an error whose message does not include it."""
    if isinstance(error, StoreUnusable):
        return "Choose another store with --store PATH or the variable OUTLAST_STORE."
    if isinstance(error, ServerAway):
        return "Start it with `outlast serve`, or name another address with --server or OUTLAST_URL."
    if isinstance(error, NotPermitted):
        return "Sign in with `outlast login`, or set OUTLAST_TOKEN to a token whose role allows it."
    if isinstance(error, NotFound) and not isinstance(error, RunDeleted):
        return "`outlast ps` lists the runs. A unique prefix of an id is enough."
    if isinstance(error, Damaged) and error.run:
        return f"`outlast verify {error.run}` shows all problems; `--everything --after N` reads the events after N."
    return ""
