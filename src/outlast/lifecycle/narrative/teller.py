"""The teller: hears a log entry by entry and keeps the beats of the story.

What each type of event adds to the story stands in `treatments`; every type that is written has one there. The teller knows
what is going on (`open`), lets a turn of the story close it, and counts what the headline speaks of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct, field

from outlast.history import events as e
from outlast.history.record import Entry
from outlast.lifecycle.narrative import phrases as say
from outlast.lifecycle.narrative.beats import NO_WALL, TURN, Affair, Beat, Key, Mark, Said
from outlast.lifecycle.narrative.story import Tone
from outlast.lifecycle.narrative.work import Work

SomeEvent = TypeVar("SomeEvent", bound=e.Event)
SomeBeat = TypeVar("SomeBeat", bound=Beat)
Treatment = Callable[["Teller", Any, Entry], None]

TREATMENTS: dict[type[e.Event], Treatment] = {}
"""What every type of event adds to the story."""


def tells(
    *kinds: type[SomeEvent],
) -> Callable[[Callable[[Teller, SomeEvent, Entry], None]], Callable[[Teller, SomeEvent, Entry], None]]:
    """Register the treatment of these types."""

    def register(
        treatment: Callable[[Teller, SomeEvent, Entry], None],
    ) -> Callable[[Teller, SomeEvent, Entry], None]:
        TREATMENTS.update(dict.fromkeys(kinds, treatment))
        return treatment

    return register


TONES = {"question": Tone.PEOPLE, "timer": Tone.TIME, "step": Tone.WORK}
SINCE = {"question": "was asked", "child": "was started", "step": "began"}
"""What an affair did that is settled later."""


class Left(Struct):
    """What a turn of history left behind: events that the lineage does not see."""

    first: int = 0
    last: int = 0
    branches: set[int] = field(default_factory=set[int])
    done: dict[str, None] = field(default_factory=dict[str, None])
    end: str = ""

    def hear(self, entry: Entry) -> None:
        self.first, self.last = self.first or entry.seq, entry.seq
        self.branches.add(entry.branch)
        match entry.event:
            case e.NodeCompleted(node=node):
                self.done[node] = None
            case e.RunCompleted() | e.RunContinued():
                self.end = "the run had completed there"
            case e.RunFailed(held=True):
                self.end = "the run was held there"
            case e.RunFailed():
                self.end = "the run had failed there"
            case e.RunCancelled():
                self.end = "the run had been cancelled there"
            case e.RunStarted() | e.BranchOpened():
                self.end = ""
            case _:
                pass

    def text(self) -> str:
        """`events 8–20 stay on branch 0: write and 2 more had completed, the run had failed there`."""
        if not self.first:
            return ""
        are_many = self.last > self.first
        places = f"events {self.first}–{self.last} stay" if are_many else f"event {self.first} stays"
        where = f"branch{'es' if len(self.branches) > 1 else ''} {say.listed(map(str, sorted(self.branches)))}"
        done = f"{say.names(list(self.done))} had completed" if self.done else ""
        told = ", ".join(filter(None, (done, self.end)))
        return f"{places} on {where}{f': {told}' if told else ''}"


class Teller:
    """Hears entries in order. With `full` nothing is grouped and the small things are told too."""

    def __init__(self, *, full: bool = False) -> None:
        self.full = full
        self.beats: list[Beat] = []
        self.counts: Counter[str] = Counter()
        self.left = Left()
        self.told_failures: set[tuple[str, str]] = set()
        """Of which node, and what: the end of the run need not say it again."""
        self.prompts: dict[str, tuple[str, int]] = {}
        """What was asked, and when; children and waits by their names too."""
        self.before: Entry | None = None
        """The entry of the lineage before the one that is heard."""
        self.last_turn: Said | None = None
        self._works: dict[Key, Work] = {}
        self._affairs: dict[Key, Beat] = {}

    def hear(self, entry: Entry) -> None:
        """One event more of the lineage."""
        treatment = TREATMENTS.get(type(entry.event), _unknown)
        treatment(self, entry.event, entry)
        self.before = entry

    def hear_left(self, entry: Entry) -> None:
        """An event that the lineage does not see."""
        self.left.hear(entry)

    # --- for the treatments

    def tell(self, beat: SomeBeat, entry: Entry) -> SomeBeat:
        """A new beat. If it is a turn, what went on until now is closed; if it is a pause, only the work is."""
        if beat.wall:
            self._close(everything=beat.wall >= TURN)
        beat.placed(entry)
        self.beats.append(beat)
        if isinstance(beat, Work):
            self._works[beat.topic] = beat
        else:
            self._affairs[beat.topic] = beat
        return beat

    def say(
        self, words: str, entry: Entry, tone: Tone, *family: str, wall: int = NO_WALL, many: str = "", why: str = ""
    ) -> Said:
        """A sentence of its own."""
        beat = Said(topic=(*family, str(entry.seq)), family=family, tone=tone, wall=wall, words=words, many=many)
        beat.why = say.cropped(why, 140)
        return self.tell(beat, entry)

    def turn(
        self, words: str, entry: Entry, tone: Tone, *family: str, many: str, wall: int = TURN, why: str = ""
    ) -> Said:
        """A turn of the story; nodes that are scheduled again now are told with it."""
        self.last_turn = self.say(words, entry, tone, *family, wall=wall, many=many, why=why)
        return self.last_turn

    def mention(self, words: str, entry: Entry, *family: str) -> None:
        """A small thing, told only in full."""
        if self.full:
            self.say(words, entry, Tone.DETAIL, "detail", *family)

    def going_on(self, topic: Key, kind: type[SomeBeat]) -> SomeBeat | None:
        """The beat of that topic, if nothing has closed it."""
        found = self._affairs.get(topic)
        return found if isinstance(found, kind) else None

    def work(self, node: str, entry: Entry) -> Work:
        """The beat that a node belongs to now."""
        kind = node if self.full else say.base(node)
        topic = ("work", kind)
        found = self._works.get(topic)
        if found is not None:
            return found
        return self.tell(Work(topic=topic, family=topic, tone=Tone.WORK, kind=kind), entry)

    def begin(
        self,
        entry: Entry,
        topic: Key,
        opened: str,
        *,
        family: Key,
        tone: Tone,
        plural: str,
        verbs: dict[Mark, str],
        wall: int = NO_WALL,
        about: str = "",
        after: str = " after ",
    ) -> None:
        """Something that others, or time, will settle; `about` is what it is called until then."""
        self.prompts["/".join(topic)] = (about, entry.time)
        self.tell(
            Affair(
                topic=topic,
                family=family,
                tone=tone,
                wall=wall,
                plural=plural,
                opened=opened,
                since=entry.time,
                verbs=verbs,
                after=after,
            ),
            entry,
        )

    def about(self, kind: str, name: str) -> str:
        """What an affair was called when it began."""
        return self.prompts.get(f"{kind}/{name}", ("", 0))[0] or say.cropped(name, 60)

    def settle(
        self, topic: Key, entry: Entry, mark: Mark, words: str, alone: str, *, rest: str = "", by: str = ""
    ) -> None:
        """An affair is settled: told with its beginning (`words`, how long it took, `rest`) if that is still going on, else
        by itself (`alone`, `rest`)."""
        affair = self.going_on(topic, Affair)
        if affair is not None and affair.mark == "open":
            affair.settle(entry, mark, words, rest, by)
            affair.tone = Tone.TROUBLE if mark == "failed" else affair.tone
            return
        _, since = self.prompts.get("/".join(topic), ("", entry.time))
        is_told = topic[0] in SINCE and entry.time - since >= 1000
        ago = f", {say.duration(entry.time - since)} after it {SINCE[topic[0]]}" if is_told else ""
        tone = Tone.TROUBLE if mark == "failed" else TONES.get(topic[0], Tone.OUTSIDE)
        self.say(f"{alone}{ago}{rest}", entry, tone, topic[0], "alone", many=f"{{n}} times a {topic[0]} was settled")

    def turned(self, beat: Said, entry: Entry) -> None:
        """A beat that was told before has become a turn, here."""
        self._close(everything=True)
        beat.touch(entry)
        beat.wall, self.last_turn = TURN, beat
        at = next(place for place in reversed(range(len(self.beats))) if self.beats[place] is beat)
        self.beats.append(self.beats.pop(at))

    def _close(self, *, everything: bool) -> None:
        """A pause of the story does not part a node's beginning from its end; a turn parts everything."""
        if everything:
            for work in self._works.values():
                work.cut()
            self._works.clear()
            self._affairs.clear()
        else:
            self._works = {topic: work for topic, work in self._works.items() if work.busy}


def _unknown(teller: Teller, event: e.Event, entry: Entry) -> None:
    """A type of the format that nothing writes yet."""
    teller.say(f"{type(event).__name__} was recorded", entry, Tone.DETAIL, type(event).__name__, many="{n} events")
