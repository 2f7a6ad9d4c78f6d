"""The load of the kernel: a trivial node boundary."""

from __future__ import annotations

from msgspec import Raw

from outlast.history import events as e
from outlast.history.codec import encode

BIRTH: tuple[e.AnyEvent, ...] = (
    e.RunCreated(workflow="bench"),
    e.RunStarted(),
    e.NodeScheduled(node="work#0"),
    e.NodeStarted(node="work#0", hash="9f3a2b9f3a2b9f3a", code="a1b2c3d4"),
)


def boundary(number: int) -> list[e.AnyEvent]:
    """One node completes, the next is scheduled and starts: the cost of every step of a run."""
    following = f"work#{number + 1}"
    return [
        e.NodeCompleted(node=f"work#{number}", output=Raw(b"12"), ms=0.1),
        e.NodeScheduled(node=following),
        e.NodeStarted(node=following, hash="9f3a2b9f3a2b9f3a", code="a1b2c3d4"),
    ]


ROW = encode(boundary(12)).decode()
"""The same boundary as text, for the raw comparison."""
