"""A state one append further, laid over the durable one.

The state of a run is always a fold of durable facts. What is about to be appended is folded into a draft first: there it
is checked, and from there the new summary is read, before a byte is written. If the append lands, the draft is absorbed;
if it loses a race, the draft is dropped, what others wrote is folded, and a new one is made. Both cost O(what changed).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from outlast.lifecycle.state import Outline, State, Wait

Part = TypeVar("Part")

_copy: Callable[[Outline], Outline] = getattr(Outline, "__copy__")  # noqa: B009, at every append: without copy()'s detours


class Overlay(Generic[Part]):
    """A dictionary with changes on top; None among the changes means removed."""

    __slots__ = ("base", "changes")

    def __init__(self, base: dict[str, Part]) -> None:
        self.base = base
        self.changes: dict[str, Part | None] = {}

    def get(self, key: str, /) -> Part | None:
        if key in self.changes:
            return self.changes[key]
        return self.base.get(key)

    def __setitem__(self, key: str, part: Part, /) -> None:
        self.changes[key] = part

    def pop(self, key: str, default: None, /) -> object:
        found = self.get(key)
        if key in self.base:
            self.changes[key] = None
        else:
            self.changes.pop(key, None)
        return found if found is not None else default

    def clear(self) -> None:
        self.changes = dict.fromkeys(self.base)

    def items(self) -> Iterator[tuple[str, Part]]:
        """In the order that `absorb` leaves behind."""
        changes = self.changes
        for key, part in self.base.items():
            if key not in changes:
                yield key, part
        for key, changed in changes.items():
            if changed is not None:
                yield key, changed

    def values(self) -> Iterator[Part]:
        return (part for _, part in self.items())

    def __len__(self) -> int:
        extra = 0
        for key, part in self.changes.items():
            extra += (part is not None) - (key in self.base)
        return len(self.base) + extra

    def absorb(self) -> None:
        """Make the changes those of the dictionary underneath."""
        for key, part in self.changes.items():
            if part is None:
                self.base.pop(key, None)
            else:
                self.base[key] = part
        self.changes.clear()


class OrderedOverlay(Overlay[Part]):
    """An overlay that keeps the order in which parts were added, also of one that was removed and added again."""

    __slots__ = ()

    def __setitem__(self, key: str, part: Part, /) -> None:
        self.changes.pop(key, None)
        self.changes[key] = part

    def absorb(self) -> None:
        for key, part in self.changes.items():
            self.base.pop(key, None)
            if part is not None:
                self.base[key] = part
        self.changes.clear()


class View(State):
    """A state over another one. An overlay begins when its table is first asked for: most appends touch only the nodes."""

    __slots__ = ("overlays", "under")

    overlays: dict[str, Overlay[Any]]
    under: State

    def __init__(self, under: State) -> None:
        self.under = under
        self.outline = _copy(under.outline)
        self.overlays = {}

    def _new_table(self, name: str) -> object:
        kind = OrderedOverlay if name == "waits" else Overlay
        self.overlays[name] = overlay = kind(getattr(self.under, name))
        return overlay


class Draft:
    """The state as it will be. Fold into `view`; then `absorb` or `drop`."""

    __slots__ = ("state", "view")

    def __init__(self, state: State) -> None:
        self.state = state
        self.view = View(state)

    @property
    def has_new_ends(self) -> bool:
        """Whether waits or loose ends were added or ended."""
        overlays = self.view.overlays
        waits, loose = overlays.get("waits"), overlays.get("loose")
        return bool((waits is not None and waits.changes) or (loose is not None and loose.changes))

    def opened(self) -> tuple[Wait, ...]:
        """The waits and loose ends that the draft adds."""
        return tuple(wait for changes in self._ends() for wait in changes.values() if wait is not None)

    def closed(self) -> tuple[str, ...]:
        """The names of those it ends; one that only moved between the two tables is also among the opened."""
        return tuple(name for changes in self._ends() for name, wait in changes.items() if wait is None)

    def _ends(self) -> list[dict[str, Wait | None]]:
        overlays = self.view.overlays
        return [overlays[name].changes for name in ("waits", "loose") if name in overlays]

    def absorb(self) -> None:
        """What was drafted has happened."""
        for overlay in self.view.overlays.values():
            if overlay.changes:
                overlay.absorb()
        self.state.outline = self.view.outline
        self.view.outline = _copy(self.view.outline)

    def drop(self) -> None:
        """What was drafted has not happened."""
        for overlay in self.view.overlays.values():
            overlay.changes.clear()
        self.view.outline = _copy(self.state.outline)
