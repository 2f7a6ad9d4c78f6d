"""Beats: the things a story tells, one sentence each. Two of one family can be told as one, so that a long story is short.

A beat that is told is final only when the story ends: until then later events may add to it, as an answer adds to its
question. `wall` says how much it parts what came before from what comes after; a beat is never joined with one beyond a
higher wall than the telling allows."""

from __future__ import annotations

from collections import Counter
from typing import Literal, TypeAlias

from msgspec import Struct, field

from outlast.history.record import Entry
from outlast.lifecycle.narrative import phrases as say
from outlast.lifecycle.narrative.story import Tone

Key: TypeAlias = tuple[str, ...]
NO_WALL, PAUSE, TURN, CHAPTER = 0, 1, 2, 3
"""Nothing is parted; something was waited for; the run was stopped or went on; history itself turned."""


class Beat(Struct, kw_only=True):
    """One thing to tell. `topic` finds it again while it goes on, `family` are those it can be told with."""

    topic: Key
    family: Key
    tone: Tone
    wall: int = NO_WALL
    first: int = 0
    last: int = 0
    began: int = 0
    ended: int = 0
    count: int = 1

    def placed(self, entry: Entry) -> None:
        """It begins here."""
        self.first = self.last = entry.seq
        self.began = self.ended = entry.time

    def touch(self, entry: Entry) -> None:
        """It goes on up to here."""
        self.last, self.ended = entry.seq, max(self.ended, entry.time)

    def absorb(self, later: Beat) -> None:
        """Tell the later one, which is of the same family, with this one."""
        self.last, self.ended = max(self.last, later.last), max(self.ended, later.ended)
        self.count += later.count
        self.wall = max(self.wall, later.wall)
        if later.tone is Tone.TROUBLE:
            self.tone = later.tone

    def colour(self) -> Tone:
        """What it is about, as far as it is known now."""
        return self.tone

    def text(self) -> str:
        """The sentence."""
        raise NotImplementedError


class Said(Beat, kw_only=True):
    """A sentence as it is. `many` tells several of its kind, with `{n}` for how many."""

    words: str
    many: str = ""
    again: list[str] = field(default_factory=list[str])
    """Nodes that are done again because of it."""
    why: str = ""
    more: list[str] = field(default_factory=list[str])
    """What else is to be said, after it."""

    def absorb(self, later: Beat) -> None:
        super().absorb(later)
        if isinstance(later, Said):
            self.words, self.why, self.more = later.words, later.why, later.more
            self.again += later.again

    def text(self) -> str:
        redone = f"done again: {say.names(self.again)}" if self.again else ""
        if self.count == 1:
            return say.sentence(self.words + (f": {self.why}" if self.why else ""), *self.more, redone)
        many = (self.many or "{n} times something like this").replace("{n}", f"{self.count:,}")
        return say.sentence(many, redone, f"the last: {self.words}{f', {self.why}' if self.why else ''}")


Mark: TypeAlias = Literal["open", "settled", "dropped", "failed"]


class Affair(Beat, kw_only=True):
    """Something that begins and is settled later, often by others: a question, a timer, a child, a step. `since` is
    when it began, if that was told. Once it is settled, `settled` and `rest` tell it, and between them stands how long it
    took."""

    plural: str
    opened: str
    settled: str = ""
    rest: str = ""
    after: str = " after "
    since: int | None = None
    mark: Mark = "open"
    marks: Counter[Mark] = field(default_factory=Counter[Mark])
    who: Counter[str] = field(default_factory=Counter[str])
    verbs: dict[Mark, str] = field(default_factory=dict[Mark, str])

    def settle(self, entry: Entry, mark: Mark, words: str, rest: str = "", by: str = "") -> None:
        self.touch(entry)
        self.mark, self.settled, self.rest = mark, words, rest
        if by:
            self.who[by] += 1

    def absorb(self, later: Beat) -> None:
        if not self.marks:
            self.marks[self.mark] += 1
        super().absorb(later)
        if isinstance(later, Affair):
            self.marks.update(later.marks or {later.mark: 1})
            self.who.update(later.who)
            self.opened, self.settled, self.rest = later.opened, later.settled, later.rest
            self.mark, self.since, self.after = later.mark, later.since, later.after

    def text(self) -> str:
        if self.count == 1:
            return say.sentence(self._one())
        told = [self._marked(mark, number) for mark, number in self.marks.items()]
        return say.sentence(f"{self.count:,} {self.plural}: {', '.join(told)}", f"the last: {self._one()}")

    def _marked(self, mark: Mark, number: int) -> str:
        """How many of them are settled so, and by whom."""
        many = f"{number:,} " if len(self.marks) > 1 else ""
        who = f" by {say.names(list(self.who))}" if self.who and mark == "settled" else ""
        return f"{many}{self.verbs.get(mark, mark)}{who}"

    def _one(self) -> str:
        if self.mark == "open" or not self.settled:
            return self.opened
        took = self.ended - self.since if self.since is not None else 0
        return f"{self.settled}{f'{self.after}{say.duration(took)}' if took >= 1000 else ''}{self.rest}"
