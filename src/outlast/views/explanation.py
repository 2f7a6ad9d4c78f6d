"""The text form of an explanation."""

from __future__ import annotations

from collections.abc import Iterator

from outlast.lifecycle.explanation import Explanation, Problem
from outlast.lifecycle.timeline.phrases import duration, plain
from outlast.views.lines import Line, line

STYLES = {"info": "dim", "warning": "yellow", "error": "red"}
MARGIN = 5


def lines(explanation: Explanation, where: str = "") -> Iterator[Line]:
    """The headline, the timeline, the state, the findings and the actions. `where` is added to each command."""
    yield line((explanation.headline, "bold"), fit="wrap")
    yield line()
    timeline = explanation.timeline
    elapsed = [duration(each.elapsed_ms * 1000) for each in timeline.entries]
    width = max(map(len, elapsed), default=0)
    for place, (after, entry) in enumerate(zip(elapsed, timeline.entries, strict=True)):
        if timeline.omitted and place == timeline.gap:
            yield _behind("", width, f"… {timeline.omitted:,} entries omitted; --full shows all", "dim")
        yield _behind(f"{after:>{width}}", width, entry.text, STYLES.get(entry.level, ""))
    yield line()
    for sentence in explanation.state:
        yield _behind("now", MARGIN - 2, sentence)
    for found in explanation.findings:
        yield from _problem(found)
    commands = [plain(each.command + where) for each in explanation.actions]
    width = max(map(len, commands), default=0)
    for command, each in zip(commands, explanation.actions, strict=True):
        yield line(" " * MARGIN, (f"{command:<{width}}", "cyan"), fit="copy", note=plain(each.effect))


def _problem(found: Problem) -> Iterator[Line]:
    yield _behind(found.code, MARGIN - 2, found.sentence, "yellow")
    for text in (f"likely cause: {found.cause}" if found.cause else "", *found.actions):
        if text:
            yield _behind("", MARGIN - 2, text, "dim")


def _behind(margin: str, width: int, text: str, style: str = "") -> Line:
    """A text behind a margin; wrapped lines begin below the text."""
    whole = f"{margin:<{width}}  {plain(text)}"
    return line((whole, style), fit="wrap", hang=width + 2 - (len(whole) - len(whole.lstrip())))
