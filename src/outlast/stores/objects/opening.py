"""Opening a bucket, and proving that it keeps conditions before anything is entrusted to it.

A server that accepts `If-None-Match` and ignores it loses runs without a word. So whoever opens a store creates the
object that says what this place is, which all but the first must be refused; the first tries it a second time, and tries
to update it under a version it never had. Whoever lets that pass is not used.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.address import BucketAddress
from outlast.errors import StoreUnusable
from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Bucket, Tag
from outlast.stores.shared import VERSION, check_version

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_FORMAT = msgspec.json.encode({"format": VERSION, "what": "runs of Outlast"})
MISSING = (
    "object stores need obstore, which is not installed: install Outlast with its extra, outlast[objects] "
    "(pip install 'outlast[objects]')"
)
IGNORES = (
    "the server does not keep conditions (If-None-Match and If-Match): two workers could write the same run, so it cannot "
    "hold runs. Use a server with conditional writes, or another kind of store"
)


def open_bucket(at: BucketAddress, *, readonly: bool = False) -> Bucket:
    """The bucket at an address, proved; `StoreUnusable` if it cannot hold runs."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError:
        raise StoreUnusable(MISSING) from None

    from outlast.stores.objects.remote import known_cause, told

    try:
        config: Any = dict(at.config)
        store: Any = from_url(at.url, config=config, client_options=_client(at), retry_config=_RETRIES)
        return bucket_over(store, at.url, readonly=readonly)
    except (BaseError, ValueError, OSError) as error:
        cause = known_cause(error)
        raise StoreUnusable(
            f"could not open {at.url}: {f'{cause} ({told(error)})' if cause else told(error)}"
        ) from None


def bucket_over(store: Any, shown: str, *, readonly: bool = False) -> Bucket:
    """The bucket behind a store of obstore's, proved. Errors name it as `shown`."""
    from outlast.stores.objects.remote import RemoteBucket

    if not readonly:
        _prove(store)
    try:
        body = bytes(store.get(keys.FORMAT).bytes())
    except FileNotFoundError:
        raise StoreUnusable(f"there is no store at {shown}") from None
    _check_format(body, shown)
    return RemoteBucket(store, shown)


_RETRIES: RetryConfig = {
    "max_retries": 6,
    "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=2), "base": 2},
    "retry_timeout": timedelta(seconds=20),
}


def _client(at: BucketAddress) -> ClientConfig:
    return {
        "allow_http": at.allow_http,
        "connect_timeout": timedelta(seconds=5),
        "timeout": timedelta(seconds=at.timeout),
    }


def _prove(store: Any) -> None:
    """Make the object that says what this is; if we are the first, see conditions being kept."""
    if _tag(store, "create") is None:
        return
    if _tag(store, "create") is not None or _tag(store, {"e_tag": '"never"', "version": "0"}) is not None:
        from obstore.exceptions import BaseError

        with suppress(BaseError, OSError):
            store.delete(keys.FORMAT)
        raise StoreUnusable(IGNORES)


def _tag(store: Any, mode: Any) -> Tag | None:
    """The tag of the format's object once it is written, None if that was refused."""
    from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

    try:
        result = store.put(keys.FORMAT, _FORMAT, mode=mode)
    except (AlreadyExistsError, PreconditionError):
        return None
    except (NotSupportedError, NotImplementedError):
        raise StoreUnusable(IGNORES) from None
    return result["e_tag"] or "", result["version"] or ""


def _check_format(body: bytes, where: str) -> None:
    try:
        version = int(msgspec.json.decode(body)["format"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        raise StoreUnusable(f"{where} holds an {keys.FORMAT} that is not Outlast's; nothing was changed") from None
    check_version(where, version)
