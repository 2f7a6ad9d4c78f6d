"""What is looked at in the words of every command, whichever it is, before anything is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from outlast.cli import streams
from outlast.cli.options import Form, Output, Reply
from outlast.errors import InvalidInput

_FOR_PEOPLE = (None, Output.TABLE, Form.TEXT, Reply.TEXT)
_MAY_BE_EMPTY = frozenset({"title", "reason", "by", "value", "feedback"})
"""Texts of people's own; elsewhere a variable of a script was not set, and what is meant is unknown."""


class Command(TyperCommand):
    """A command that is refused if its words are empty where they have to say something. Where its output is for
    programs, nothing but that comes to stdout."""

    def get_params(self, ctx: Any) -> list[Any]:
        return without_values(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        try:
            _must_say_something({each.name: _shown(each) for each in self.params}, ctx.params)
        except InvalidInput as error:
            from outlast.cli.entrypoint import refused

            raise typer.Exit(refused(error)) from None
        with nullcontext() if ctx.params.get("output") in _FOR_PEOPLE else streams.set_apart():
            return super().invoke(ctx)


class Group(TyperGroup):
    """Several commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return without_values(super().get_params(ctx))


def group(about: str) -> typer.Typer:
    """Commands under one name."""
    return typer.Typer(cls=Group, no_args_is_help=True, add_completion=False, rich_markup_mode=None, help=about)


def without_values(parameters: Sequence[Any]) -> list[Any]:
    """The same, where the help does not say of a flag that it takes a value."""
    for each in parameters:
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    return list(parameters)


def _must_say_something(shown: Mapping[str, str], given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        for text in _texts(value):
            if not text and name not in _MAY_BE_EMPTY:
                raise InvalidInput(f"{shown[name]} is empty: say what is meant, or leave it out")


def _texts(value: Any) -> Iterator[str]:
    """What was given of one name: once or several times, or something that is no text."""
    for each in value if isinstance(value, (list, tuple)) else (value,):
        if type(each) is str:
            yield each


def _shown(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    return str(parameter.opts[0] if is_option else parameter.metavar or parameter.name)
