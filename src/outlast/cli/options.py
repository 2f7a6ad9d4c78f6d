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


def settings_of(ctx: typer.Context, store: str | None) -> Settings:
    """What is in force, with the store that was named after the command, else the one named before it."""
    before: str | None = ctx.obj
    return read_settings(flags={"store": store if store is not None else before})
