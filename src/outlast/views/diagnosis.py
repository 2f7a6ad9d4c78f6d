"""The explanation of a run and its text form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from outlast.lifecycle.explanation import Action, ClaimHolder, Explanation, OpenWait, Problem
from outlast.lifecycle.timeline.phrases import duration, plain

__all__ = ["Action", "ClaimHolder", "Explanation", "Line", "OpenWait", "Problem", "lines"]


class Line(NamedTuple):
    """One line of text behind its margin. `style` is the level of an entry, `title`, `command` or empty. A command is
    never wrapped, so that it can be copied; `note` is the text after it."""

    margin: str
    text: str
    style: str = ""
    note: str = ""


def lines(told: Explanation, where: str = "") -> Iterator[Line]:
    """The headline, the timeline, the state, the findings and the actions. `where` is added to each command."""
    yield Line("", told.headline, "title")
    yield Line("", "")
    elapsed = [duration(each.elapsed_ms * 1000) for each in told.timeline.entries]
    width = max(map(len, elapsed), default=0)
    for place, (after, entry) in enumerate(zip(elapsed, told.timeline.entries, strict=True)):
        if told.timeline.omitted and place == told.timeline.gap:
            yield Line(" " * (width + 2), f"… {told.timeline.omitted:,} entries omitted; --full shows all", "info")
        yield Line(f"{after:>{width}}  ", plain(entry.text), entry.level)
    yield Line("", "")
    for sentence in told.state:
        yield Line("now  ", plain(sentence))
    for found in told.findings:
        yield from _problem(found)
    commands = [plain(each.command + where) for each in told.actions]
    width = max(map(len, commands), default=0)
    for command, each in zip(commands, told.actions, strict=True):
        yield Line("     ", f"{command:<{width}}", "command", plain(each.effect))


def _problem(found: Problem) -> Iterator[Line]:
    yield Line(f"{found.code:<4} ", plain(found.sentence), "warning")
    for text in (f"likely cause: {found.cause}" if found.cause else "", *found.actions):
        if text:
            yield Line("     ", plain(text), "info")
