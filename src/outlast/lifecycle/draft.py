"""Drafts: the state after the next append, as an overlay on the durable state.

The state of a run is always a fold of durable events. Events are first folded into a draft: the fold checks them, and the
new summary is made from the draft, before a byte is written. If the append lands, the draft is absorbed. If it loses a race,
the draft is dropped, the other writers' events are folded, and the draft is made again. Both cost O(changes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from outlast.lifecycle.state import NodeState, Outline, State, Wait

Part = TypeVar("Part")

_copy: Callable[[Outline], Outline] = getattr(Outline, "__copy__")  # noqa: B009, on the hot path, faster than copy()
_ENDS = ("waits", "loose")


class Overlay(Generic[Part]):
    """A dictionary with changes on top; None among the changes means removed."""

    __slots__ = ("base", "changes", "has_removed")

    def __init__(self, base: dict[str, Part]) -> None:
        self.base = base
        self.changes: dict[str, Part | None] = {}
        self.has_removed = False

    def get(self, key: str, /) -> Part | None:
        changes = self.changes
        return changes[key] if key in changes else self.base.get(key)

    def __setitem__(self, key: str, part: Part, /) -> None:
        self.changes[key] = part

    def pop(self, key: str, default: None, /) -> object:
        found = self.get(key)
        if key in self.base:
            self.changes[key] = None
            self.has_removed = True
        else:
            self.changes.pop(key, None)
        return found if found is not None else default

    def clear(self) -> None:
        self.changes = dict.fromkeys(self.base)
        self.has_removed = True

    def items(self) -> Iterator[tuple[str, Part]]:
        """The items in the order that they have after `absorb`."""
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
        if not self.changes:
            return len(self.base)
        extra = 0
        for key, part in self.changes.items():
            extra += (part is not None) - (key in self.base)
        return len(self.base) + extra

    def absorb(self) -> None:
        """Apply the changes to the dictionary underneath."""
        if self.has_removed:
            for key in [key for key, part in self.changes.items() if part is None]:
                del self.changes[key]
                self.base.pop(key, None)
            self.has_removed = False
        self.base.update(self.changes)  # type: ignore[arg-type]  # removed parts are gone by now
        self.changes.clear()

    def drop(self) -> None:
        """Discard the changes."""
        self.changes.clear()
        self.has_removed = False


class OrderedOverlay(Overlay[Part]):
    """An overlay that keeps insertion order; a part that is removed and added again moves to the end."""

    __slots__ = ()

    def __setitem__(self, key: str, part: Part, /) -> None:
        self.changes.pop(key, None)
        self.changes[key] = part

    def absorb(self) -> None:
        for key in self.changes:
            self.base.pop(key, None)
        super().absorb()


class View(State):
    """A state as an overlay on another one. Most appends change only `nodes`; the overlays of other tables are created on
    first access, in `others`."""

    nodes: Overlay[NodeState]

    def __init__(self, under: State) -> None:
        self.under = under
        self.outline = _copy(under.outline)
        self.nodes = Overlay(under.nodes)  # type: ignore[arg-type]  # a state that is not a view has dictionaries
        self.others: dict[str, Overlay[Any]] = {}

    def count(self, name: str) -> int:
        overlay = self.others.get(name)
        return self.under.count(name) if overlay is None else len(overlay)

    def new_table(self, name: str) -> object:
        kind = OrderedOverlay if name == "waits" else Overlay
        self.others[name] = overlay = kind(getattr(self.under, name))
        return overlay


class Draft:
    """The state after the next append. Fold into `view`, then `absorb` or `drop`."""

    __slots__ = ("state", "view")

    def __init__(self, state: State) -> None:
        self.state = state
        self.view = View(state)

    def has_new_ends(self) -> bool:
        """Whether waits or loose ends were opened or closed."""
        others = self.view.others
        if not others:
            return False
        waits, loose = others.get("waits"), others.get("loose")
        return bool((waits is not None and waits.changes) or (loose is not None and loose.changes))

    def ends(self) -> tuple[tuple[Wait, ...], tuple[str, ...]]:
        """The waits and loose ends that the draft opens, and the names of those it closes. One that moves between the two
        tables is in both."""
        if not self.has_new_ends():
            return (), ()
        others = self.view.others
        changes = [(name, wait) for table in _ENDS if table in others for name, wait in others[table].changes.items()]
        opened = tuple(wait for _, wait in changes if wait is not None)
        return opened, tuple(name for name, wait in changes if wait is None)

    def absorb(self) -> None:
        """Apply the draft to the state: the append has landed."""
        view = self.view
        nodes = view.nodes
        if nodes.has_removed:
            nodes.absorb()
        else:  # the same without a call, on the hot path
            nodes.base.update(nodes.changes)  # type: ignore[arg-type]
            nodes.changes.clear()
        if view.others:
            for overlay in view.others.values():
                if overlay.changes:
                    overlay.absorb()
        self.state.outline = view.outline
        view.outline = _copy(view.outline)

    def drop(self) -> None:
        """Discard the draft: the append has not landed."""
        view = self.view
        view.nodes.drop()
        for overlay in view.others.values():
            overlay.drop()
        view.outline = _copy(self.state.outline)
