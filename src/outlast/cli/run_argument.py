"""Runs and branches as people name them: `RUN` is its current branch, `RUN@2` that branch of it."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

import typer

from outlast.client import Engine
from outlast.errors import NotFound
from outlast.history.ids import RunId

BranchArgument: TypeAlias = Annotated[
    str,
    typer.Argument(help="The run: its id or a beginning of it; RUN@2 is its branch 2.", metavar="RUN"),
]
_BRANCH = re.compile(r"(.+)@([0-9]{1,9})", re.DOTALL)


async def found(desk: Engine, name: str) -> tuple[RunId, int | None]:
    """The run that is meant, and the branch if one is. An id that itself ends so is an id."""
    split = _BRANCH.fullmatch(name)
    if split is None:
        return await desk.find(name), None
    try:
        return await desk.find(name), None
    except NotFound:
        return await desk.find(split[1]), int(split[2])
