"""Start to store a large value as a blob while it is still being checked.

Writing and hashing release the interpreter lock, so they run in parallel with the decoding that checks the value. A value
that fails the check is dropped before it becomes a blob, and no event refers to a blob before it is durable.
"""

from __future__ import annotations

from contextlib import suppress

from outlast.errors import StoreError
from outlast.history.events import Value
from outlast.store import BeginsEarly, Blobs, PendingBlob
from outlast.values.codec import INLINE_LIMIT, reference_to, stored


class EagerUpload:
    """The upload of one value. `stored` or `drop` ends it."""

    __slots__ = ("_begun", "_blobs", "_body")

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._body = b""
        self._begun: PendingBlob | None = None

    def begin(self, body: bytes) -> None:
        """Start with these bytes, which are probably final. They replace those of an earlier call."""
        self.drop()
        if len(body) > INLINE_LIMIT and isinstance(self._blobs, BeginsEarly):
            with suppress(StoreError):  # `stored` writes them again and raises the error
                self._begun, self._body = self._blobs.begin(body), body

    async def stored(self, body: bytes | Value) -> Value:
        """The value as the log stores it."""
        begun, self._begun = self._begun, None
        if begun is None or body is not self._body:
            return await stored(body, self._blobs)
        return reference_to(await begun.keep())

    def drop(self) -> None:
        """Discard the upload."""
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.drop()
