"""The options that commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import typer

from outlast.settings import Settings, read_settings


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"
    IDS = "ids"


class Form(StrEnum):
    """For answers that are no list."""

    TEXT = "text"
    JSON = "json"


class Children(StrEnum):
    """What becomes of the children that were started in the part that a branch leaves."""

    CANCEL = "cancel"
    KEEP = "keep"


class Reply(StrEnum):
    """For what was done to runs, or found out about them."""

    TEXT = "text"
    JSON = "json"
    IDS = "ids"


StoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--store", metavar="PATH|URL", help="The store to look into.", show_default=False),
]
OutputOption: TypeAlias = Annotated[
    Output,
    typer.Option("--output", "-o", help="For people, for programs, or for pipes."),
]
FormOption: TypeAlias = Annotated[
    Form,
    typer.Option("--output", "-o", help="For people or for programs."),
]
ReplyOption: TypeAlias = Annotated[
    Reply,
    typer.Option("--output", "-o", help="For people, for programs, or only the ids, for pipes."),
]
RunArgument: TypeAlias = Annotated[str, typer.Argument(help="The run: its id or a beginning of it.", metavar="RUN")]
RunsArgument: TypeAlias = Annotated[
    list[str], typer.Argument(help="The runs: ids or beginnings of them.", metavar="RUN...")
]
AppOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--app", metavar="MODULE|FILE", help="Import this first, to find workflows in it; may be given again."
    ),
]
ByOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", help="Who asks for it, for the log; your login name by default."),
]
ChildrenOption: TypeAlias = Annotated[
    Children,
    typer.Option("--children", help="Children started in the part that is left: cancel them, or keep them running."),
]
DryRunOption: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Show the events that would be appended; change nothing.")
]
ReasonOption: TypeAlias = Annotated[str, typer.Option("--reason", "-r", metavar="TEXT", help="Why, for the log.")]


def settings_of(ctx: typer.Context, store: str | None) -> Settings:
    """What is in force, with the store that was named after the command, else the one named before it."""
    before: str | None = ctx.obj
    return read_settings(flags={"store": store if store is not None else before})


def whoever(by: str | None) -> str:
    """Who is to stand in the log: the one named, else the one who is logged in, if that can be told."""
    if by is not None:
        return by
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
