"""Stores workflow definitions, addressed by the hash of their content, before an event names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.errors import NotFound
from outlast.store import BlobRef, Blobs

if TYPE_CHECKING:
    from outlast.functions.decorators import Workflow


class Definitions:
    """The definitions that this process has already stored."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._stored: set[str] = set()

    async def keep(self, workflow: Workflow[..., Any]) -> str:
        """Store the definition of a workflow, and return its version."""
        version = workflow.version
        if version not in self._stored:
            if not await self._blobs.has(version):
                await self._blobs.put(workflow._document)
            self._stored.add(version)
        return version


async def definition_of(blobs: Blobs, version: str) -> bytes:
    """The stored definition of a version; `NotFound` if it is missing."""
    try:
        return b"".join([chunk async for chunk in blobs.open(BlobRef(version, 0))])
    except NotFound:
        raise NotFound(f"the definition of version {version[:12]} is not stored here") from None
