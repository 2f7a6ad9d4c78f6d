"""A bucket on a server: S3, Google Cloud Storage, Azure, and what speaks like one of them; through obstore.

What obstore sends again after an answer was lost may find its own object there: `Taken` then says nothing about who wrote
it. A write that failed in any other way than being refused may have happened, and may still happen: `OutcomeUnknown`.
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
"""Names that a server lists in one answer."""
PIECE = 8 << 20
"""Bytes of a large object that are asked for at once."""
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
                if start == 0:  # a range of an empty object would be refused, so its size is asked for first
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
            pages = self._store.list(folder, offset=after or None, chunk_size=PAGE)
            self.requests.list += 1
            count = 0
            async for page in pages:
                for meta in page:
                    count += 1
                    if count % PAGE == 0:
                        self.requests.list += 1
                    if meta["path"] <= after:
                        continue  # a server that does not know where to begin begins at the beginning
                    time = int(meta["last_modified"].timestamp() * 1_000_000)
                    yield Listed(meta["path"], meta["size"], time, meta["e_tag"] or str(time))

    async def folders(self, folder: str) -> Sequence[str]:
        self.requests.list += 1
        with _reading(folder):
            found = await self._answer(self._store.list_with_delimiter_async(folder))
            return sorted(path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"])

    async def delete(self, names: Iterable[str]) -> None:
        gone = list(names)
        if not gone:
            return
        self.requests.delete += 1
        with _writing(gone[0]):
            try:
                await self._answer(self._store.delete_async(gone if len(gone) > 1 else gone[0]))
            except FileNotFoundError:
                return

    async def _answer(self, request: Awaitable[Any]) -> Any:
        """The answer to a request; that there is none for long is logged."""
        with self._outage.watched():
            try:
                result = await request
            except (FileNotFoundError, AlreadyExistsError, PreconditionError):
                self._outage.answered()
                raise
            except BaseError as error:
                self._outage.error = told(error)
                raise
        self._outage.answered()
        return result

    async def close(self) -> None:
        """obstore closes its connections when nobody uses them."""


@contextmanager
def _writing(name: str) -> Iterator[None]:
    try:
        yield
    except (AlreadyExistsError, PreconditionError) as error:
        raise Taken(name) from error
    except (BaseError, FileNotFoundError, ValueError, OSError) as error:
        _check_definite(error)
        raise OutcomeUnknown(f"writing {name} failed: {told(error)}") from None


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except (BaseError, ValueError, OSError) as error:
        _check_definite(error)
        raise StoreError(f"reading {name} failed: {told(error)}") from None


def _check_definite(error: Exception) -> None:
    """Raise what says for certain that nothing was done."""
    if cause := known_cause(error):
        raise StoreUnusable(f"{cause} ({told(error)})") from None
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        raise StoreReadOnly(f"the server does not let us: {told(error)}") from None
    if isinstance(error, FileNotFoundError):
        raise StoreUnusable(f"there is no such bucket: {told(error)}") from None
    if isinstance(error, NotSupportedError | InvalidPathError):
        raise StoreUnusable(f"the server cannot do this: {told(error)}") from None


_CAUSES = {
    r"RequestTimeTooSkewed|RequestExpired": (
        "the clock of this machine differs too much from that of the server, which refuses its signatures: set the clock"
    ),
    r"InvalidAccessKeyId|InvalidClientTokenId|SignatureDoesNotMatch": (
        "the server refuses these credentials: the access key or the secret key is wrong"
    ),
    r"ExpiredToken|TokenRefreshRequired": "the session token has expired: renew the credentials",
    r"169\.254\.169\.254|latest/(api/token|meta-data)|metadata\.google|missing.{0,20}credential|no credential": (
        "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS or "
        "AZURE_STORAGE_ACCOUNT_KEY in the environment"
    ),
}
"""What servers and libraries say, and what is the matter then."""


def known_cause(error: BaseException) -> str:
    """What is the matter and what to do, if the error says so anywhere in its many lines; else empty."""
    return next((cause for pattern, cause in _CAUSES.items() if re.search(pattern, str(error), re.IGNORECASE)), "")


def told(error: BaseException) -> str:
    """What an error says, in one line, without anything that is secret in the environment."""
    line = str(error).strip().partition("\n")[0].partition(": <")[0][:300]
    for name, value in os.environ.items():
        if len(value) >= 4 and any(word in name.upper() for word in SECRET):
            line = line.replace(value, "***")
    return line
