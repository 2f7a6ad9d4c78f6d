"""Random histories: any event of any type, and whole legal logs.

`events` draws one event with any fields, from the types in `EVENT_TYPES`: a new type is included at once. `histories`
draws a log that breaks no invariant: several owners, guests and their requests, branches cut anywhere, holds, pauses,
retries, compensation, endings and events after them. An `EventGenerator` suggests events that may follow in a state,
by the transition table; a `History` writes append records and keeps the state. Choices are a function from n to a
number below n: Hypothesis or a seeded generator.

Only this package imports Hypothesis.
"""

from support.histories.any_event import LETTERS, events, values
from support.histories.author import Author, histories, written
from support.histories.event_generator import EventGenerator
from support.histories.log import History, rechained

__all__ = ["LETTERS", "Author", "EventGenerator", "History", "events", "histories", "rechained", "values", "written"]
