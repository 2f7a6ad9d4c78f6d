"""The options that commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import typer


class Output(StrEnum):
    TABLE = "table"
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


def store_of(ctx: typer.Context, given: str | None) -> str | None:
    """The store named after the command, else the one named before it."""
    before: str | None = ctx.obj
    return given if given is not None else before
