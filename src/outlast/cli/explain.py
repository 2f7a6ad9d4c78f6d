"""`outlast explain`: the story of a run in plain words."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from outlast.cli.console import screen, write_json
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.options import Form, FormOption, StoreOption, settings_of
from outlast.cli.outcome import where_of
from outlast.cli.run_argument import BranchArgument, found
from outlast.compose import open_desk
from outlast.lifecycle.narrative import Story, Suggestion, Tone
from outlast.lifecycle.narrative.phrases import moment
from outlast.settings import Settings
from outlast.views.texts import plain
from outlast.views.times import iso

WIDEST = 1000
"""A screen wider than that is a pipe: nothing is wrapped."""
STYLES = {
    Tone.RUN: "bold",
    Tone.WORK: "",
    Tone.TROUBLE: "red",
    Tone.RECOVERY: "magenta",
    Tone.PEOPLE: "yellow",
    Tone.TIME: "cyan",
    Tone.OUTSIDE: "",
    Tone.END: "bold green",
    Tone.DETAIL: "dim",
}


def explain(
    ctx: typer.Context,
    run: BranchArgument,
    full: Annotated[bool, typer.Option("--full", "-f", help="Every node and every small thing by itself.")] = False,
    store: StoreOption = None,
    output: FormOption = Form.TEXT,
) -> None:
    """Tell the story of a run: what happened and why, how it stands, what to type next.

    On the left is how long after its start something began. Nodes of one kind are told together.

    \b
    outlast explain 01a1e436-2c39
    outlast explain 01a1e436-2c39@1 --full
    outlast explain 01a1e436-2c39 -o json | jq -r '.sentences[].text'
    """
    carry_out(lambda: _explain(settings_of(ctx, store), run, full, output))


async def _explain(settings: Settings, name: str, full: bool, form: Form) -> int:
    async with open_desk(settings, readonly=True) as desk:
        run, branch = await found(desk, name)
        story = await desk.explain(run, branch=branch, full=full)
    where = where_of(settings)
    if form is Form.JSON:
        write_json(story_shape(story, where), pretty=True)
    else:
        show_story(screen(), story, where)
    return SOUND


# --- for people


def show_story(console: Console, story: Story, where: str) -> None:
    """The headline, a sentence per line behind its time, how things stand, and commands to go on with."""
    _show(console, Text(), Text(plain(story.headline), style="bold"))
    console.print()
    width = max((len(moment(each.after)) for each in story.sentences), default=0)
    for place, each in enumerate(story.sentences):
        if story.omitted and place == story.gap:
            left_out = f"… {story.omitted:,} sentences are left out here; --full tells them all"
            _show(console, Text(" " * (width + 2)), Text(left_out, style="dim"))
        when = Text(f"{moment(each.after):>{width}}  ", style="dim")
        _show(console, when, Text(plain(each.text), style=STYLES[each.tone]))
    console.print()
    for said in story.now:
        _show(console, Text("now  ", style="bold cyan"), Text(plain(said)))
    _show_next(console, [(plain(command_of(each, story, where)), each.why) for each in story.next])


def _show_next(console: Console, commands: list[tuple[str, str]]) -> None:
    widest = max((len(command) for command, _ in commands), default=0)
    for command, why in commands:
        _show(console, Text("     "), Text.assemble((f"{command:<{widest}}", "cyan"), f"  {plain(why)}"))


def _show(console: Console, before: Text, text: Text) -> None:
    """A text within the screen; what does not fit on its line stands below its beginning."""
    if not console.is_terminal and console.width > WIDEST:
        console.file.write(f"{before.plain}{text.plain}\n")
        return
    for part in text.wrap(console, max(20, console.width - before.cell_len)):
        part.rstrip()
        console.print(Text.assemble(before, part), soft_wrap=True)
        before = Text(" " * before.cell_len)


def command_of(each: Suggestion, story: Story, where: str) -> str:
    """What to type for it."""
    run = shlex.quote(each.run or story.run)
    match each.verb:
        case "answer":
            only = sum(other.verb == "answer" for other in story.next) == 1
            which = "" if only else f" --interaction {shlex.quote(each.arguments[0])}"
            return f"outlast answer {run} {each.arguments[1]}{which}{where}"
        case "compare" if each.arguments:
            return f"outlast compare {run}{each.arguments[0]} {run}{where}"
        case _:
            more = "".join(f" {shlex.quote(argument)}" for argument in each.arguments)
            return f"outlast {each.verb} {run}{more}{where}"


# --- for programs


def story_shape(story: Story, where: str) -> dict[str, Any]:
    """Names here are a promise, like those of the other commands."""
    return {
        "run": story.run,
        "workflow": story.workflow,
        "title": story.title,
        "branch": story.branch,
        "current": story.is_current,
        "status": story.status,
        "began": iso(story.began),
        "headline": story.headline,
        "sentences": [
            {
                "text": each.text,
                "about": each.tone,
                "time": iso(each.time),
                "after_ms": each.after / 1000,
                "first": each.first,
                "last": each.last,
                "count": each.count,
            }
            for each in story.sentences
        ],
        "omitted": story.omitted,
        "now": story.now,
        "next": [{"command": command_of(each, story, where), "why": each.why} for each in story.next],
    }
