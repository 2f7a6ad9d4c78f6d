"""Typer builds the whole command again for every call, which takes longer than most commands: here it is built once."""

from __future__ import annotations

from functools import cache

import typer.main
import typer.testing


def keep() -> None:
    """From now on this process builds the command once."""
    vars(typer.main)["get_command"] = vars(typer.testing)["_get_command"] = cache(typer.main.get_command)
