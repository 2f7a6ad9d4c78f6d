"""What a story is made of when it is told: sentences with place and time, how things stand now, and what may be done."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus


class Tone(StrEnum):
    """What a sentence is about, for those who colour or filter."""

    RUN = "run"
    WORK = "work"
    TROUBLE = "trouble"
    RECOVERY = "recovery"
    PEOPLE = "people"
    TIME = "time"
    OUTSIDE = "outside"
    END = "end"
    DETAIL = "detail"


class Sentence(Struct, frozen=True):
    """Something that happened: `after` is how long after the creation of the run it began, in microseconds; it is what the
    events from `first` to `last` say, among them `count` things of one kind."""

    text: str
    tone: Tone
    time: int
    after: int
    first: int
    last: int
    count: int = 1


class Suggestion(Struct, frozen=True):
    """A verb of the desk that makes sense now, with what follows the run's id, and what it would do."""

    verb: str
    why: str
    arguments: tuple[str, ...] = ()
    run: str = ""


class Story(Struct, frozen=True):
    """A run in plain words. `omitted` sentences in the middle were left out, at place `gap`; `now` says how it stands."""

    run: RunId
    workflow: str
    title: str
    branch: int
    is_current: bool
    status: RunStatus
    began: int
    headline: str
    sentences: tuple[Sentence, ...]
    now: tuple[str, ...]
    next: tuple[Suggestion, ...]
    omitted: int = 0
    gap: int = 0
    is_full: bool = False
