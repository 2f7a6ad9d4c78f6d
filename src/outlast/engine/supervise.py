"""Restarts a service that fails, and logs the error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from outlast.errors import OutlastError

log = logging.getLogger("outlast.services")
PAUSE_S = 1.0
"""Seconds before a failed service is restarted."""
REPEAT_S = 60.0
"""Seconds after which the same error is logged again."""


async def supervise(name: str, service: Callable[[], Awaitable[None]]) -> None:
    """Run a service until cancelled."""
    loop, logged, since = asyncio.get_running_loop(), "", 0.0
    while True:
        try:
            await service()
        except OutlastError as error:
            if str(error) != logged or loop.time() - since >= REPEAT_S:
                logged, since = str(error), loop.time()
                log.warning("the %s failed and is retried every %g s: %s", name, PAUSE_S, error)
        except Exception:
            log.exception("the %s failed and is restarted", name)
        await asyncio.sleep(PAUSE_S)
