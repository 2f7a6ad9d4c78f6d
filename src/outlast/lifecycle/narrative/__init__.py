"""The story of a run in plain words, from its log.

`narrate` hears the log entry by entry (`teller`), keeps what there is to tell as beats (`beats`, `work`), makes a long
story short (`condensing`) and says how the run stands (`present`). What each type of event adds stands in `about_runs`,
`about_work`, `about_people` and `about_outside`: a type that is written has a treatment there, or a test
fails. Time is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from outlast.history.ids import RunId
from outlast.history.lineage import Interval
from outlast.history.record import Entry
from outlast.lifecycle.fold import apply
from outlast.lifecycle.narrative import about_outside, about_people, about_runs, about_work
from outlast.lifecycle.narrative.beats import Beat
from outlast.lifecycle.narrative.condensing import condensed
from outlast.lifecycle.narrative.present import headline, standing, suggestions
from outlast.lifecycle.narrative.story import Sentence, Story, Suggestion, Tone
from outlast.lifecycle.narrative.teller import TREATMENTS, Teller
from outlast.lifecycle.resume_plan import Revival
from outlast.lifecycle.state import State

__all__ = ["LINES", "TREATMENTS", "Narrator", "Sentence", "Story", "Suggestion", "Tone", "narrate"]

LINES = 36
"""So many sentences a story has by default: with its headline and its end it fits on a screen."""
ROOMS = (about_runs, about_work, about_people, about_outside)
"""Where the treatments stand."""


class Narrator:
    """Hears a log, in order, and then tells its story. `lineage` are the intervals that the branch sees: what lies outside
    of them is told only as left behind. Without it everything counts."""

    def __init__(self, lineage: Sequence[Interval] = (), *, full: bool = False) -> None:
        self.state = State()
        self._teller = Teller(full=full)
        self._lineage = list(lineage)

    def hear(self, entry: Entry) -> None:
        """One entry more. `Illegal` if it may not follow."""
        while len(self._lineage) > 1 and entry.seq > self._lineage[0][1]:
            self._lineage.pop(0)
        if self._lineage and not self._lineage[0][0] <= entry.seq <= self._lineage[0][1]:
            self._teller.hear_left(entry)
            return
        apply(self.state, entry.event, entry.seq, entry.time)
        self._teller.hear(entry)

    def story(
        self, run: RunId, now: int, *, newest: int | None = None, lines: int = LINES, revival: Revival | None = None
    ) -> Story:
        """The story, told once: in about that many lines, unless it is to be told in full. `revival` is how the run would
        go back if it were resumed."""
        teller, state = self._teller, self.state
        outline = state.outline
        newest = outline.branch if newest is None else newest
        counts = teller.counts
        beats, omitted, gap = (teller.beats, 0, 0) if teller.full else condensed(teller.beats, lines)
        return Story(
            run=run,
            workflow=outline.workflow,
            title=outline.title,
            branch=outline.branch,
            is_current=outline.branch == newest,
            status=state.status,
            began=outline.created,
            headline=headline(run, state, counts, now, is_current=outline.branch == newest),
            sentences=tuple(_sentence(beat, outline.created) for beat in beats),
            now=tuple(standing(state, now, newest)),
            next=tuple(suggestions(state, newest, revival)),
            omitted=omitted,
            gap=gap,
            is_full=teller.full,
        )


def narrate(
    run: RunId,
    entries: Iterable[Entry],
    now: int,
    *,
    lineage: Sequence[Interval] = (),
    newest: int | None = None,
    full: bool = False,
    lines: int = LINES,
) -> Story:
    """The story that these entries tell, seen from `now`."""
    narrator = Narrator(lineage, full=full)
    for entry in entries:
        narrator.hear(entry)
    return narrator.story(run, now, newest=newest, lines=lines)


def _sentence(beat: Beat, began: int) -> Sentence:
    return Sentence(
        beat.text(), beat.colour(), beat.began, max(0, beat.began - began), beat.first, beat.last, beat.count
    )
