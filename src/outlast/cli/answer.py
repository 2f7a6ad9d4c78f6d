"""`outlast answer`: answer what a run asks."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import typer

from outlast.cli import prompt
from outlast.cli.console import notice, write_bytes, write_json
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.options import ByOption, Reply, ReplyOption, RunArgument, StoreOption, settings_of, whoever
from outlast.cli.parameters import read_json
from outlast.cli.questions import understood, wanted
from outlast.compose import open_desk
from outlast.errors import InvalidInput
from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait
from outlast.settings import Settings
from outlast.views.actions import how_to_answer, schema_of
from outlast.views.texts import cropped
from outlast.views.types import AnswerView


class Given(msgspec.Struct, frozen=True):
    """What was typed as the answer: at most one of these is meant."""

    text: str | None = None
    document: str | None = None
    yes: bool = False
    no: bool = False

    @property
    def number(self) -> int:
        return (self.text is not None) + (self.document is not None) + self.yes + self.no


def answer(
    ctx: typer.Context,
    run: RunArgument,
    value: Annotated[
        str | None, typer.Argument(help="The answer: text, a number, yes or no, or JSON.", metavar="VALUE")
    ] = None,
    interaction: Annotated[
        str | None, typer.Option("--interaction", "-i", metavar="ID", help="Which question, if there are several.")
    ] = None,
    document: Annotated[str | None, typer.Option("--json", metavar="JSON", help="The answer as JSON.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="The answer to a yes-or-no question.")] = False,
    no: Annotated[bool, typer.Option("--no", "-n", help="The other answer to it.")] = False,
    by: ByOption = None,
    store: StoreOption = None,
    output: ReplyOption = Reply.TEXT,
) -> None:
    """Answer what a run asks; without a VALUE you are asked for it.

    An answer of the wrong kind is refused, and so is a second one.

    \b
    outlast answer 01a1e436-2c39 --yes
    outlast answer 01a1e436-2c39 "next Monday" --interaction ask#2
    outlast answer 01a1e436-2c39 --json '{"pages": 12}'
    """
    given = Given(value, document, yes, no)
    carry_out(lambda: _answer(settings_of(ctx, store), run, given, interaction, whoever(by), output))


async def _answer(settings: Settings, name: str, given: Given, interaction: str | None, by: str, reply: Reply) -> int:
    if given.number > 1:
        raise InvalidInput("give one answer: a VALUE, --json, or --yes or --no")
    async with open_desk(settings, readonly=True) as desk:
        run, question = await desk.diagnostics.open_question(await desk.find(name), interaction)
    answered = await _meant(run, question, given)
    async with open_desk(settings) as desk:
        await desk.answer(run, answered, interaction=question.id, by=by)
    if reply is Reply.JSON:
        exact = msgspec.Raw(json.dumps(answered).encode())  # integers of any size
        write_json(AnswerView(run=run, interaction=question.id, answer=exact))
    elif reply is Reply.IDS:
        write_bytes(f"{run}\n".encode())
    else:
        notice(f"run {run}: “{cropped(question.text or question.id)}” is answered", style="bold")
    return SOUND


async def _meant(run: RunId, question: Wait, given: Given) -> Any:
    if given.yes or given.no:
        return given.yes
    if given.document is not None:
        return read_json(given.document, "--json")
    if given.text is not None:
        return understood(given.text, schema_of(question))
    nobody = f"“{question.text or question.id}” wants {wanted(schema_of(question))}: {how_to_answer(run, question, '')}"
    if not prompt.is_anyone_there():
        raise InvalidInput(nobody)
    try:
        return await prompt.ask(question)
    except EOFError:
        raise InvalidInput(nobody) from None
