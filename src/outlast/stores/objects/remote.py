"""A bucket on S3, Google Cloud Storage, Azure or a compatible server, accessed with obstore.

obstore repeats a request whose answer was lost, and may then find its own object, so `Taken` does not show which process
wrote it. A write that failed without being refused may have happened or may still happen: `OutcomeUnknown`.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from outlast.errors import OutcomeUnknown, StoreError, StoreReadOnly, StoreUnusable
from outlast.stores.objects.bucket import Found, Listed, Requests, Tag, Taken, is_name
from outlast.stores.outage import Outage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from obstore import PutMode, PutResult, UpdateVersion
    from obstore.store import ObjectStore

PAGE = 1000
"""Names in one answer to a list request."""
PIECE = 8 << 20
"""Bytes of a large object per request."""
SECRET = ("SECRET", "TOKEN", "PASSWORD", "ACCESS_KEY", "ACCOUNT_KEY", "CREDENTIAL")


class RemoteBucket:
    """Objects behind an obstore store."""

    def __init__(self, store: ObjectStore, shown: str = "the server") -> None:
        self._store: Any = store
        self._outage = Outage(shown)
        self.requests = Requests()

    async def create(self, name: str, body: bytes) -> Tag:
        self.requests.create += 1
        return await self._put(name, body, "create")

    async def update(self, name: str, body: bytes, tag: Tag) -> Tag:
        self.requests.update += 1
        version: UpdateVersion = {}
        if tag[0]:
            version["e_tag"] = tag[0]
        if tag[1]:
            version["version"] = tag[1]
        return await self._put(name, body, version)

    async def put(self, name: str, body: bytes | Path) -> Tag:
        self.requests.put += 1
        return await self._put(name, body, "overwrite")

    async def _put(self, name: str, body: bytes | Path, mode: PutMode) -> Tag:
        with _writing(name):
            result: PutResult = await self._answer(self._store.put_async(name, body, mode=mode))
            return result["e_tag"] or "", result["version"] or ""

    async def get(self, name: str) -> Found | None:
        if not is_name(name):
            return None
        self.requests.get += 1
        with _reading(name):
            try:
                result = await self._answer(self._store.get_async(name))
                body = bytes(await result.bytes_async())
            except FileNotFoundError:
                return None
            return Found(body, (result.meta["e_tag"] or "", result.meta["version"] or ""))

    async def stream(self, name: str) -> AsyncIterator[bytes]:
        start, size = 0, 1
        while start < size:
            self.requests.get += 1
            with _reading(name):
                if start == 0:  # a range of an empty object would be refused, so read the size first
                    size = (await self._store.head_async(name))["size"]
                    if size == 0:
                        return
                piece = bytes(await self._store.get_range_async(name, start=start, end=min(size, start + PIECE)))
            start += len(piece)
            yield piece

    async def written(self, name: str) -> int | None:
        if not is_name(name):
            return None
        self.requests.head += 1
        with _reading(name):
            try:
                meta = await self._answer(self._store.head_async(name))
            except FileNotFoundError:
                return None
            return int(meta["last_modified"].timestamp() * 1_000_000)

    async def listing(self, folder: str, after: str = "") -> AsyncIterator[Listed]:
        if not is_name(folder):
            return
        with _reading(folder):
            batches = self._store.list(folder, offset=after or None, chunk_size=PAGE)
            self.requests.list += 1
            count = 0
            async for batch in batches:
                for meta in batch:
                    count += 1
                    if count % PAGE == 0:
                        self.requests.list += 1
                    if meta["path"] <= after:
                        continue  # some servers ignore the offset
                    time = int(meta["last_modified"].timestamp() * 1_000_000)
                    yield Listed(meta["path"], meta["size"], time, meta["e_tag"] or str(time))

    async def folders(self, folder: str) -> Sequence[str]:
        self.requests.list += 1
        with _reading(folder):
            found = await self._answer(self._store.list_with_delimiter_async(folder))
            return sorted(path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"])

    async def delete(self, names: Iterable[str]) -> None:
        targets = list(names)
        if not targets:
            return
        self.requests.delete += 1
        with _writing(targets[0]):
            try:
                await self._answer(self._store.delete_async(targets if len(targets) > 1 else targets[0]))
            except FileNotFoundError:
                return

    async def _answer(self, request: Awaitable[Any]) -> Any:
        """Await the answer to a request, and log if there is none for long."""
        with self._outage.watched():
            try:
                result = await request
            except (FileNotFoundError, AlreadyExistsError, PreconditionError):
                self._outage.answered()
                raise
            except BaseError as error:
                self._outage.error = message_of(error)
                raise
        self._outage.answered()
        return result

    async def close(self) -> None:
        """Does nothing: obstore closes idle connections."""


@contextmanager
def _writing(name: str) -> Iterator[None]:
    try:
        yield
    except (AlreadyExistsError, PreconditionError) as error:
        raise Taken(name) from error
    except (BaseError, FileNotFoundError, ValueError, OSError) as error:
        _check_definite(error)
        raise OutcomeUnknown(f"could not write {name}: {message_of(error)}; the outcome is unknown") from None


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except (BaseError, ValueError, OSError) as error:
        _check_definite(error)
        raise StoreError(f"could not read {name}: {message_of(error)}") from None


def _check_definite(error: Exception) -> None:
    """Raise an error if it is certain that nothing was written."""
    if cause := known_cause(error):
        raise StoreUnusable(f"{cause} ({message_of(error)})") from None
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        raise StoreReadOnly(f"the server denies access; nothing was written: {message_of(error)}") from None
    if isinstance(error, FileNotFoundError):
        raise StoreUnusable(f"the bucket does not exist: {message_of(error)}") from None
    if isinstance(error, NotSupportedError | InvalidPathError):
        raise StoreUnusable(f"the server does not support this request: {message_of(error)}") from None


_CAUSES = {
    r"RequestTimeTooSkewed|RequestExpired": ("the server refuses the clock of this machine: set the clock"),
    r"InvalidAccessKeyId|InvalidClientTokenId|SignatureDoesNotMatch": ("the access key or the secret key is wrong"),
    r"ExpiredToken|TokenRefreshRequired": "the session token has expired: renew the credentials",
    r"169\.254\.169\.254|latest/(api/token|meta-data)|metadata\.google|missing.{0,20}credential|no credential": (
        "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS or "
        "AZURE_STORAGE_ACCOUNT_KEY in the environment"
    ),
}
"""Patterns in errors of servers and libraries, with the cause."""


def known_cause(error: BaseException) -> str:
    """Return the cause and the remedy if the error matches a known pattern; else empty."""
    return next((cause for pattern, cause in _CAUSES.items() if re.search(pattern, str(error), re.IGNORECASE)), "")


def message_of(error: BaseException) -> str:
    """Return the first line of an error's message, with secrets from the environment masked."""
    line = str(error).strip().partition("\n")[0].partition(": <")[0][:300]
    for name, value in os.environ.items():
        if len(value) >= 4 and any(word in name.upper() for word in SECRET):
            line = line.replace(value, "***")
    return line
