"""Keeps a service going: what it trips over is logged, and it starts again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from outlast.errors import OutlastError

log = logging.getLogger("outlast.services")
PAUSE = 1.0
"""Seconds before a service that failed is started again."""


async def serve(name: str, service: Callable[[], Awaitable[None]]) -> None:
    """Run a service until cancelled."""
    while True:
        try:
            await service()
        except OutlastError as error:
            log.warning("the %s stumbled and goes on: %s", name, error)
        except Exception:
            log.exception("the %s failed and is started again", name)
        await asyncio.sleep(PAUSE)
