"""What only one live run may have at a time: a working directory, an account, a device.

There is no lock to be lost: the key of a run is in its summary, and whoever starts or resumes a run looks for others that
are live under it, before and after the run is seen by everybody. Of two that begin at the same moment at least one is
refused, and perhaps both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from outlast.errors import NotAllowed
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.store import Catalog, RunFilter

LIVE = (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.COMPENSATING)


async def check_exclusive(catalog: Catalog, exclusive: str, run: RunId) -> None:
    """Refuse, naming who has it, if another live run has this for itself."""
    async for other in _live(catalog, exclusive):
        if other != run:
            raise NotAllowed(
                f"run {other} is live and has {exclusive!r} for itself: wait for its end, or cancel it, before run {run} "
                "goes on"
            )


async def _live(catalog: Catalog, exclusive: str) -> AsyncIterator[RunId]:
    after = ""
    while True:
        page = await catalog.search(RunFilter(exclusive=exclusive, statuses=LIVE, after=after))
        for listed in page.items:
            yield listed.summary.run
        if not page.next:
            return
        after = page.next
