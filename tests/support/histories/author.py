"""Whole histories."""

from __future__ import annotations

from functools import cache
from random import Random

from hypothesis import strategies as st

from outlast.history.record import Kind, entries
from support.histories.event_generator import Burst, EventGenerator, Pick
from support.histories.log import History

_TICKS = (1, 0, 1000, 60_000_000, -500)
"""Steps of the clock between appends; a guest's clock may be behind."""


class Author:
    """Writes a random history, append by append."""

    def __init__(self, pick: Pick, history: History | None = None) -> None:
        self.history = History() if history is None else history
        self.generator = EventGenerator(pick)
        for record in self.history.records:
            self.generator.hear(entries(record))

    def go_on(self) -> None:
        """Write one more append of a random kind; the first one creates the run."""
        history, generator = self.history, self.generator
        kind = self._kind()
        history.time += _TICKS[generator.pick(len(_TICKS))]
        if kind is Kind.TAKEOVER:
            history.epoch += 1 + generator.pick(2)  # a claim may have come to nothing
            opening = generator.take_over(history.state, history.epoch)
        else:
            opening = generator.suggest(history.state, kind if history.records else Kind.OWNER, branching=True)
        self._say(opening)
        for _ in range(0 if history.state.is_closed else generator.pick(4)):
            self._say(generator.suggest(history.state, kind))
        if opening:
            history.seal(kind)

    def _kind(self) -> Kind:
        history = self.history
        if not history.records:
            is_owned = not self.generator.chance(4)
            history.epoch = int(is_owned)
            return Kind.OWNER if is_owned else Kind.GUEST
        kind = _WRITERS[self.generator.pick(len(_WRITERS))]
        if kind is Kind.OWNER and not history.epoch:
            return Kind.TAKEOVER
        return Kind.OWNER if kind is Kind.CONTROL and history.state.is_closed else kind

    def _say(self, burst: Burst) -> None:
        for event in burst:
            self.generator.hear([self.history.say(event)])


_WRITERS = (Kind.OWNER,) * 8 + (Kind.GUEST,) * 2 + (Kind.TAKEOVER, Kind.CONTROL)
"""Kinds of appends by frequency."""


@cache
def _below(n: int) -> st.SearchStrategy[int]:
    return st.integers(0, n - 1)


@st.composite
def histories(draw: st.DrawFn, appends: int = 25) -> History:
    """A legal log of up to this many appends."""
    author = Author(lambda n: draw(_below(n)) if n > 1 else 0)
    for _ in range(1 + draw(_below(appends))):
        author.go_on()
    return author.history


def written(seed: int, appends: int = 25) -> History:
    """The legal log for this seed, without Hypothesis: fast, but it does not shrink."""
    random = Random(seed)
    author = Author(random.randrange)
    for _ in range(appends):
        author.go_on()
    return author.history
