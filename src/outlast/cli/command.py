"""Typer commands and groups; checks that apply to every command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from outlast.cli import streams
from outlast.cli.options import Form, Output
from outlast.errors import InvalidInput

_TEXT = (None, Output.TEXT, Form.TEXT)
_MAY_BE_EMPTY = frozenset({"title", "reason", "by", "value", "feedback"})
"""Parameters with free text. An empty value elsewhere is an error, such as an unset variable in a script."""


class Command(TyperCommand):
    """A command that refuses empty values. With -o json or ids, only that output is written to stdout."""

    def get_params(self, ctx: Any) -> list[Any]:
        return without_values(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        try:
            _refuse_empty({each.name: _shown(each) for each in self.params}, ctx.params)
        except InvalidInput as error:
            from outlast.cli.entrypoint import refused

            raise typer.Exit(refused(error)) from None
        with nullcontext() if ctx.params.get("output") in _TEXT else streams.set_apart():
            return super().invoke(ctx)


class Group(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return without_values(super().get_params(ctx))


def group(about: str) -> typer.Typer:
    """A group of commands under one name."""
    return typer.Typer(cls=Group, no_args_is_help=True, add_completion=False, rich_markup_mode=None, help=about)


def without_values(parameters: Sequence[Any]) -> list[Any]:
    """Parameters whose help shows no value after a flag."""
    for each in parameters:
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    return list(parameters)


def _refuse_empty(shown: Mapping[str, str], given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        values = value if isinstance(value, (list, tuple)) else (value,)
        if name not in _MAY_BE_EMPTY and any(type(each) is str and not each for each in values):
            raise InvalidInput(f"{shown[name]} is empty: give a value, or omit it")


def _shown(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    return str(parameter.opts[0] if is_option else parameter.metavar or parameter.name)
