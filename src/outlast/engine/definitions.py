"""Stores workflow definitions, addressed by the hash of their content, before an event names them."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, Any

from outlast.errors import NotFound
from outlast.store import BlobRef, Blobs

if TYPE_CHECKING:
    from outlast.functions.decorators import Workflow


PUT_AGAIN_S = 6 * 3600.0
"""A definition that no kept run names is collected a day after it was last put (S13): it is put again long before."""


class Definitions:
    """The definitions that this process has stored, and when."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._stored: dict[str, float] = {}

    async def keep(self, workflow: Workflow[..., Any]) -> str:
        """Store the definition of a workflow, and return its version."""
        version, now = workflow.version, time()
        if now - self._stored.get(version, -PUT_AGAIN_S) >= PUT_AGAIN_S:
            await self._blobs.put(workflow._document)
            self._stored[version] = now
        return version


async def definition_of(blobs: Blobs, version: str) -> bytes:
    """The stored definition of a version; `NotFound` if it is missing."""
    try:
        return b"".join([chunk async for chunk in blobs.open(BlobRef(version, 0))])
    except NotFound:
        raise NotFound(f"the definition of version {version[:12]} is not stored here") from None
