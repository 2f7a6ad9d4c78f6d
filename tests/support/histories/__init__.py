"""Random histories: any event of any type, and whole logs that are legal.

`events` draws one event with any fields, by looking at what `EVENT_TYPES` says: a new type is drawn as soon as it is there.
`histories` draws a log that breaks no invariant: several owners, guests and their requests, branches cut anywhere, holds,
pauses, retries, compensation, endings and what re-opens them. A `Muse` suggests what may be said next in a state, asking
the transition table; a `History` writes it down as append records and keeps the state. Neither needs Hypothesis but for
the choices, which are a function from n to a number below n: a seeded generator serves as well.

This is the only package that imports Hypothesis.
"""

from support.histories.any_event import LETTERS, events, values
from support.histories.author import Author, histories, written
from support.histories.event_generator import Muse
from support.histories.log import History, rechained

__all__ = ["LETTERS", "Author", "History", "Muse", "events", "histories", "rechained", "values", "written"]
