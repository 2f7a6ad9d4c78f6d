"""Work as a beat: all nodes of one kind between two turns of the story, told in one sentence."""

from __future__ import annotations

from collections import Counter
from typing import Literal, TypeAlias

from msgspec import Struct, field

from outlast.history import events as e
from outlast.history.record import Entry
from outlast.lifecycle.narrative import phrases as say
from outlast.lifecycle.narrative.beats import Beat
from outlast.lifecycle.narrative.story import Tone

Stand: TypeAlias = Literal["completed", "adopted", "failed", "retrying", "ended", "cut", "started", "scheduled"]
OPEN: frozenset[Stand] = frozenset({"started", "scheduled", "retrying"})
ERRORS = 20
"""So many different errors are told apart."""

_MANY: dict[Stand, str] = {
    "completed": "completed",
    "adopted": "were taken over from the branch that was left",
    "failed": "failed",
    "retrying": "wait for another attempt",
    "ended": "were ended with the run",
    "cut": "were begun, and no results of them were recorded",
    "started": "are at work",
    "scheduled": "had not begun",
}
_ONE: dict[Stand, str] = {
    "completed": "completed",
    "adopted": "was taken over from the branch that was left",
    "failed": "failed",
    "retrying": "failed and waits for another attempt",
    "ended": "was ended with the run",
    "cut": "was begun, and no result of it was recorded",
    "started": "is at work",
    "scheduled": "had not begun yet",
}


class Effort(Struct):
    """What is known of one node in this stretch of the story."""

    stand: Stand = "scheduled"
    attempt: int = 1
    began: int = 0
    ms: float = 0.0
    failures: int = 0
    checkpoints: int = 0
    note: str = ""


class Work(Beat, kw_only=True):
    """Nodes of one kind. `output` is the newest one's, told when there is only one node."""

    kind: str
    efforts: dict[str, Effort] = field(default_factory=dict[str, Effort])
    errors: Counter[str] = field(default_factory=Counter[str])
    final: Counter[str] = field(default_factory=Counter[str])
    output: e.Value = e.NULL
    busy: set[str] = field(default_factory=set[str])
    """Nodes that are not over."""
    kinds: list[str] = field(default_factory=list[str])
    """Other kinds that are told with this one, because there are too many."""

    def effort(self, node: str, entry: Entry) -> Effort:
        """Of a node something is said; it belongs to this beat from now on."""
        self.touch(entry)
        found = self.efforts.get(node)
        if found is None:
            found = self.efforts[node] = Effort(began=entry.time)
        return found

    def put(self, node: str, entry: Entry, stand: Stand, attempt: int) -> Effort:
        """So it stands with a node now."""
        effort = self.effort(node, entry)
        effort.stand, effort.attempt = stand, attempt
        if stand in OPEN:
            self.busy.add(node)
        else:
            self.busy.discard(node)
        return effort

    def fail(self, node: str, entry: Entry, event: e.NodeFailed, *, is_final: bool) -> None:
        effort = self.put(node, entry, "failed" if is_final else "retrying", event.attempt)
        effort.failures += not is_final
        kept = self.final if is_final else self.errors
        said = say.short(event.error)
        kept[said if said in kept or len(kept) < ERRORS else "other errors"] += 1

    def cut(self) -> None:
        """The story turns: what is open here was left open then."""
        for node in self.busy:
            if self.efforts[node].stand == "started":
                self.efforts[node].stand = "cut"

    def absorb(self, later: Beat) -> None:
        super().absorb(later)
        if isinstance(later, Work):
            for node, effort in later.efforts.items():
                before = self.efforts.get(node)
                if before is not None:
                    effort.failures += before.failures
                self.efforts[node] = effort
            self.errors.update(later.errors)
            self.final.update(later.final)
            self.output = later.output
            if later.kind != self.kind:
                self.kinds = list(dict.fromkeys([*(self.kinds or [self.kind]), *(later.kinds or [later.kind])]))

    # --- in words

    def colour(self) -> Tone:
        return Tone.TROUBLE if any(effort.stand == "failed" for effort in self.efforts.values()) else self.tone

    def text(self) -> str:
        if len(self.efforts) == 1:
            ((node, effort),) = self.efforts.items()
            return say.sentence(self._alone(node, effort), self._tries(), self._last_words())
        return say.sentence(self._together(), self._tries(), self._last_words())

    def _alone(self, node: str, effort: Effort) -> str:
        words = _ONE[effort.stand]
        took = f" in {say.duration(effort.ms * 1000)}" if effort.ms and effort.stand in ("completed", "failed") else ""
        if effort.stand == "failed":
            took = took.replace(" in ", " after ")
        tried = f", at its {say.ordinal(effort.attempt)} attempt" if effort.attempt > 1 else ""
        if effort.stand == "scheduled" and tried:
            words, tried = "was to be done again", ""
        kept = f", with {say.counted(effort.checkpoints, 'checkpoint')}" if effort.checkpoints else ""
        output = say.value(self.output) if effort.stand in ("completed", "adopted") else ""
        why = {"failed": self.final, "retrying": self.errors}.get(effort.stand)
        said = ", ".join(filter(None, (output, effort.note))) or (self._told(why) if why else "")
        return f"{say.cropped(node, 60)} {words}{took}{tried}{kept}{f': {said}' if said else ''}"

    def _together(self) -> str:
        stands: Counter[Stand] = Counter(effort.stand for effort in self.efforts.values())
        of = say.label(self.kind) if not self.kinds else say.names([say.label(kind) for kind in self.kinds])
        many = f"{say.counted(len(self.efforts), 'node')} of {of}"
        took = say.duration(self.ended - self.began) if self.ended > self.began else ""
        if len(stands) == 1:
            return f"{many} {_MANY[next(iter(stands))]}{f' within {took}' if took else ''}"
        told = ", ".join(
            f"{stands[each]:,} {(_MANY if stands[each] > 1 else _ONE)[each]}" for each in _MANY if stands[each]
        )
        return f"{many}{f', in {took}' if took else ''}: {told}"

    def _tries(self) -> str:
        """Attempts that failed and were, or will be, made again."""
        errors = self.errors if self.colour() is Tone.TROUBLE else self.errors + self.final
        failed = sum(errors.values())
        if len(self.efforts) == 1 and next(iter(self.efforts.values())).stand == "retrying":
            return f"{failed:,} attempts failed so far" if failed > 1 else ""
        if not failed:
            return ""
        which = "an attempt" if failed == 1 else f"{failed:,} attempts"
        return f"{which} failed before that, {self._told(errors)}"

    def _last_words(self) -> str:
        if self.colour() is not Tone.TROUBLE or not self.final or len(self.efforts) == 1:
            return ""
        return f"failed for good: {self._failed()}, {self._told(self.final)}"

    def _failed(self) -> str:
        return say.names([node for node, effort in self.efforts.items() if effort.stand == "failed"])

    @staticmethod
    def _told(errors: Counter[str]) -> str:
        (first, _), *others = errors.most_common(2)
        return first + (f" (and {say.counted(len(errors) - 1, 'other error')})" if others else "")
