"""A large value on its way to the blob store while it is still being read back.

Writing and hashing need no lock of the interpreter, and reading back needs nothing else: together they take as long as the
longer of them. What turns out to be wrong is dropped before it is a blob, and nothing refers to a blob before it is durable.
"""

from __future__ import annotations

from contextlib import suppress

from outlast.errors import StoreError
from outlast.history.events import Value
from outlast.store import BeginsEarly, Blobs, PendingBlob
from outlast.values.codec import INLINE_LIMIT, reference_to, stored


class EagerUpload:
    """The way of one value to the store. `stored` or `drop` ends it."""

    __slots__ = ("_begun", "_blobs", "_body")

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._body = b""
        self._begun: PendingBlob | None = None

    def begin(self, body: bytes) -> None:
        """These will most probably be the bytes, and not what was said before."""
        self.drop()
        if len(body) > INLINE_LIMIT and isinstance(self._blobs, BeginsEarly):
            with suppress(StoreError):  # whoever puts them there will hear of it
                self._begun, self._body = self._blobs.begin(body), body

    async def stored(self, body: bytes | Value) -> Value:
        """What the log is to hold for these bytes."""
        begun, self._begun = self._begun, None
        if begun is None or body is not self._body:
            return await stored(body, self._blobs)
        return reference_to(await begun.keep())

    def drop(self) -> None:
        """They are not to be kept."""
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.drop()
