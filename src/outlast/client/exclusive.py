"""Exclusive keys: only one live run at a time may have a working directory, an account, a device.

A run that a user has yet to start holds no key.

This is no lock. The key of a run is in its summary. Every start or resume searches for other live runs with the same
key, before and after the run becomes visible. Of two runs that start at the same moment at least one is refused,
possibly both.
"""

from __future__ import annotations

from outlast.errors import NotAllowed
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.store import Catalog, RunFilter

LIVE = (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.COMPENSATING)


async def check_exclusive(catalog: Catalog, exclusive: str, run: RunId) -> None:
    """Refuse if another live run has this key; the error names it. An empty key is never held."""
    after = ""
    while exclusive:
        page = await catalog.search(RunFilter(exclusive=exclusive, statuses=LIVE, after=after))
        for each in page.items:
            other = each.summary.run
            if other == run or each.summary.awaits_start:
                continue
            raise NotAllowed(
                f"exclusive key {exclusive!r} is held by live run {other}: wait for its end or cancel it, then start or "
                f"resume run {run}"
            )
        if not page.next:
            return
        after = page.next
