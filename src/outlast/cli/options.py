"""The arguments and options that commands share."""

from __future__ import annotations

import getpass
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from outlast.errors import InvalidInput, NotFound
from outlast.settings import Settings, read_settings

if TYPE_CHECKING:
    from outlast.client import Engine
    from outlast.history.ids import RunId


class Output(StrEnum):
    TEXT = "text"
    JSON = "json"
    IDS = "ids"


class Form(StrEnum):
    TEXT = "text"
    JSON = "json"


class Children(StrEnum):
    """The treatment of children that were started in the part that the new branch leaves."""

    CANCEL = "cancel"
    KEEP = "keep"


def queue_flags(queues: list[str] | None, limits: list[str] | None) -> dict[str, Any]:
    """The options of queues as settings."""
    return {"queues": None if queues is None else tuple(queues), "queue_limits": ",".join(limits) if limits else None}


def login_name() -> str:
    """The name of the user, for the log; empty if the system has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


StoreOption: TypeAlias = Annotated[
    str | None, typer.Option("--store", metavar="PATH|URL", help="Store to use.", show_default=False)
]
ServerOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="Server to use instead of a store.", show_default=False),
]
ProfileOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME", help="Profile of the settings that names a server.", show_default=False),
]
WorkerQueuesOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--queue", metavar="NAME", help="Execute only runs of this queue; can be repeated.", show_default=False
    ),
]
QueueLimitOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--queue-limit", metavar="NAME=COUNT", help="Maximum number of runs of a queue at once; can be repeated."
    ),
]
OutputOption: TypeAlias = Annotated[Output, typer.Option("--output", "-o", help="Output format.")]
FormOption: TypeAlias = Annotated[Form, typer.Option("--output", "-o", help="Output format.")]
RunArgument: TypeAlias = Annotated[str, typer.Argument(help="Run id, or a unique prefix of it.", metavar="RUN")]
RunsArgument: TypeAlias = Annotated[
    list[str], typer.Argument(help="Run ids, or unique prefixes of them.", metavar="RUN")
]
SomeRunsArgument: TypeAlias = Annotated[
    list[str] | None, typer.Argument(help="Run ids, or unique prefixes of them.", metavar="RUN")
]
AppOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--app", metavar="MODULE|FILE", help="Module with workflows to import first; can be repeated."),
]
ByOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--by",
        metavar="NAME",
        default_factory=login_name,
        show_default=False,
        help="Who requests this, for the log (default: your login name).",
    ),
]
ChildrenOption: TypeAlias = Annotated[
    Children,
    typer.Option("--children", help="Cancel the children that were started in the part left, or keep them running."),
]
DryRunOption: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Show the events that would be appended; change nothing.")
]
ReasonOption: TypeAlias = Annotated[str, typer.Option("--reason", "-r", metavar="TEXT", help="Reason, for the log.")]
NoWaitOption: TypeAlias = Annotated[
    bool, typer.Option("--no-wait", help="Leave the run to a worker; do not import its code here.")
]
ConditionOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute",
        metavar="CONDITION",
        help="Runs whose search attribute matches: customer=acme, 'total>=10'; repeated: all must match.",
    ),
]
QueueOption: TypeAlias = Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Runs of this queue.")]
HeldOption: TypeAlias = Annotated[bool, typer.Option("--held", help="Failed runs that wait for a person's decision.")]
KeyFileOption: TypeAlias = Annotated[
    str | None, typer.Option("--key-file", metavar="FILE", help="File with the key that the logs were written with.")
]
BlobsOption: TypeAlias = Annotated[bool, typer.Option("--blobs/--no-blobs", help="Check the hashes of blobs.")]


BranchArgument: TypeAlias = Annotated[
    str, typer.Argument(help="Run id, or a unique prefix of it; RUN@2 is its branch 2.", metavar="RUN")
]
_BRANCH = re.compile(r"(.+)@([0-9]{1,9})", re.DOTALL)


async def branch_named(engine: Engine, name: str) -> tuple[RunId, int | None]:
    """The run, and the branch if the name has one. A run id may itself end with @ and a number."""
    split = _BRANCH.fullmatch(name)
    try:
        return await engine.find(name), None
    except NotFound:
        if split is None:
            raise
        return await engine.find(split[1]), int(split[2])


def flags_of(store: str | None = None, server: str | None = None, profile: str | None = None) -> dict[str, str]:
    """The flags that say what a command works on, as settings."""
    given = {"store": store, "url": server, "profile": profile}
    return {key: value for key, value in given.items() if value is not None}


def settings_of(
    ctx: typer.Context, store: str | None = None, server: str | None = None, profile: str | None = None
) -> Settings:
    """The settings in force. A flag after the command has priority over the same flag before it."""
    before: dict[str, str] = ctx.obj or {}
    return read_settings(flags=before | flags_of(store, server, profile))


def store_settings_of(ctx: typer.Context, why: str, **given: str | None) -> Settings:
    """The settings of a command that works on a store only. `why` says what to do instead."""
    settings = settings_of(ctx, **given)
    if settings.url:
        raise InvalidInput(
            f"`{ctx.command_path}` works on a store, and the {settings.sources['url']} names a server: {why}, or name a "
            "store with --store"
        )
    return settings
