"""Builds the Typer command once per process: building it takes longer than most commands."""

from __future__ import annotations

from functools import cache

import typer.main
import typer.testing


def keep() -> None:
    """Build the command of this process only once."""
    vars(typer.main)["get_command"] = vars(typer.testing)["_get_command"] = cache(typer.main.get_command)
