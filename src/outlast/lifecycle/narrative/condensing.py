"""A long story made short: beats of one family are told together, further apart the longer the story is.

Each step joins more than the one before it, and the first that is short enough is taken: neighbours of one family; those
that only a wait parts; those that a stop parts; those that a branch parts; then work of different kinds. What is still too
long loses its middle, and says so. The beats that are given take in those that are told with them.
"""

from __future__ import annotations

from collections.abc import Callable

from outlast.lifecycle.narrative.beats import CHAPTER, NO_WALL, PAUSE, TURN, Beat, Key
from outlast.lifecycle.narrative.work import Work

Step = Callable[[list[Beat]], list[Beat]]


def condensed(beats: list[Beat], limit: int) -> tuple[list[Beat], int, int]:
    """At most `limit` beats, how many were left out, and where."""
    for step in STEPS:
        if len(beats) <= limit:
            break
        beats = step(beats)
    if len(beats) <= limit:
        return beats, 0, 0
    head = max(1, limit // 3)
    tail = max(1, limit - head)
    return [*beats[:head], *beats[-tail:]], len(beats) - head - tail, head


def _neighbours(beats: list[Beat]) -> list[Beat]:
    told: list[Beat] = []
    for beat in beats:
        if told and told[-1].family == beat.family:
            told[-1].absorb(beat)
        else:
            told.append(beat)
    return told


def _across(wall: int) -> Step:
    """Beats of one family are told together unless something higher than that wall stands between them."""

    def step(beats: list[Beat]) -> list[Beat]:
        told: list[Beat] = []
        seen: dict[Key, Beat] = {}
        for beat in beats:
            if beat.wall > wall:
                seen.clear()
            earlier = seen.get(beat.family)
            if earlier is not None:
                earlier.absorb(beat)
            else:
                told.append(beat)
                seen[beat.family] = beat
        return told

    return step


def _all_work(beats: list[Beat]) -> list[Beat]:
    """Work of whatever kind that follows other work is told with it."""
    told: list[Beat] = []
    for beat in beats:
        last = told[-1] if told else None
        if isinstance(beat, Work) and isinstance(last, Work):
            last.absorb(beat)
        else:
            told.append(beat)
    return told


STEPS: tuple[Step, ...] = (_neighbours, _across(NO_WALL), _across(PAUSE), _across(TURN), _all_work, _across(CHAPTER))
