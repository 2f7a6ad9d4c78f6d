"""`outlast answer`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import typer

from outlast.cli import prompt
from outlast.cli.console import show_reply
from outlast.cli.entrypoint import SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import ByOption, Output, OutputOption, RunArgument
from outlast.cli.parameters import read_json
from outlast.cli.questions import expected, parsed
from outlast.errors import InvalidInput
from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait
from outlast.lifecycle.timeline.phrases import cropped
from outlast.settings import Settings
from outlast.views.actions import how_to_answer, schema_of
from outlast.views.types import AnswerView


@command
async def answer(
    settings: Settings,
    run: RunArgument,
    value: Annotated[
        str | None, typer.Argument(help="Answer: text, a number, yes or no, or JSON.", metavar="VALUE")
    ] = None,
    *,
    interaction: Annotated[
        str | None, typer.Option("--interaction", "-i", metavar="ID", help="Question to answer, if there are several.")
    ] = None,
    document: Annotated[str | None, typer.Option("--json", metavar="JSON", help="Answer as JSON.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Answer yes.")] = False,
    no: Annotated[bool, typer.Option("--no", "-n", help="Answer no.")] = False,
    by: ByOption,
    output: OutputOption = Output.TEXT,
) -> int:
    """Answer a question of a run. Without VALUE, the command asks for it.

    An answer of the wrong type is refused. A question has one answer: a second
    one is refused.

    \b
    outlast answer 01a1e436-2c39 --yes
    outlast answer 01a1e436-2c39 "next Monday" --interaction ask#2
    outlast answer 01a1e436-2c39 --json '{"pages": 12}'
    """
    if (value is not None) + (document is not None) + yes + no > 1:
        raise InvalidInput("give one answer: a VALUE, --json, --yes or --no")
    async with opened(settings, readonly=True) as engine:
        found, question = await engine.diagnostics.open_question(await engine.find(run), interaction)
    if yes or no:
        given: Any = yes
    elif document is not None:
        given = read_json(document, "--json")
    else:
        given = parsed(value, schema_of(question)) if value is not None else await _ask(found, question)
    async with opened(settings) as engine:
        await engine.answer(found, given, interaction=question.id, by=by)
    exact = msgspec.Raw(json.dumps(given).encode())  # integers of any size
    view = AnswerView(run=found, interaction=question.id, answer=exact)
    show_reply(view, output, found, f"run {found}: “{cropped(question.text or question.id, 300)}” is answered")
    return SOUND


async def _ask(run: RunId, question: Wait) -> Any:
    if prompt.is_terminal():
        try:
            return await prompt.ask(question)
        except EOFError:
            pass
    text = question.text or question.id
    raise InvalidInput(f"“{text}” requires {expected(schema_of(question))}: {how_to_answer(run, question, '')}")
