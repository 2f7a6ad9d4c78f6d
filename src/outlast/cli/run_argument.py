"""A run, or a branch of a run, as an argument: `RUN` is the current branch, `RUN@2` is branch 2."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

import typer

from outlast.client import Engine
from outlast.errors import NotFound
from outlast.history.ids import RunId

BranchArgument: TypeAlias = Annotated[
    str, typer.Argument(help="Run id, or a unique prefix of it; RUN@2 is its branch 2.", metavar="RUN")
]
_BRANCH = re.compile(r"(.+)@([0-9]{1,9})", re.DOTALL)


async def found(engine: Engine, name: str) -> tuple[RunId, int | None]:
    """The run, and the branch if the name has one. A run id may itself end with @ and a number."""
    split = _BRANCH.fullmatch(name)
    try:
        return await engine.find(name), None
    except NotFound:
        if split is None:
            raise
        return await engine.find(split[1]), int(split[2])
