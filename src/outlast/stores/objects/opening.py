"""Opens a bucket and checks that it supports conditional writes.

A server that accepts `If-None-Match` but ignores it loses runs silently. So each open creates the format object, which the
server must refuse if it exists. The first open creates it a second time, and updates it with a version that never existed.
If the server accepts one of these, the bucket is not used.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from outlast.address import BucketAddress
from outlast.errors import StoreUnusable
from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Bucket, Tag
from outlast.stores.objects.format import FORMAT, check_format

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

MISSING = "an object store needs obstore, which is not installed: pip install 'outlast[objects]'"
IGNORES = (
    "the server ignores conditional writes (If-None-Match and If-Match), so two workers could write the same run. Use a "
    "server with conditional writes, or another kind of store"
)


def open_bucket(at: BucketAddress, *, readonly: bool = False) -> Bucket:
    """Open and check the bucket at an address; raise `StoreUnusable` if it is unsuitable."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError:
        raise StoreUnusable(MISSING) from None

    from outlast.stores.objects.remote import known_cause, message_of

    try:
        config: Any = dict(at.config)
        store: Any = from_url(at.url, config=config, client_options=_client(at), retry_config=_RETRIES)
        return bucket_over(store, at.url, readonly=readonly)
    except (BaseError, ValueError, OSError) as error:
        cause = known_cause(error)
        raise StoreUnusable(
            f"could not open {at.url}: {f'{cause} ({message_of(error)})' if cause else message_of(error)}"
        ) from None


def bucket_over(store: Any, shown: str, *, readonly: bool = False) -> Bucket:
    """Check a store of obstore and return its bucket. Errors call it `shown`."""
    from outlast.stores.objects.remote import RemoteBucket

    if not readonly:
        _check_conditions(store)
    try:
        body = bytes(store.get(keys.FORMAT).bytes())
    except FileNotFoundError:
        raise StoreUnusable(f"there is no store at {shown}") from None
    check_format(body, shown)
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


def _check_conditions(store: Any) -> None:
    """Create the format object. If it is new, check that the server refuses false conditions."""
    if _tag(store, "create") is None:
        return
    if _tag(store, "create") is not None or _tag(store, {"e_tag": '"never"', "version": "0"}) is not None:
        from obstore.exceptions import BaseError

        with suppress(BaseError, OSError):
            store.delete(keys.FORMAT)
        raise StoreUnusable(IGNORES)


def _tag(store: Any, mode: Any) -> Tag | None:
    """Write the format object. Return its tag, or None if the server refused."""
    from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

    try:
        result = store.put(keys.FORMAT, FORMAT, mode=mode)
    except (AlreadyExistsError, PreconditionError):
        return None
    except (NotSupportedError, NotImplementedError):
        raise StoreUnusable(IGNORES) from None
    return result["e_tag"] or "", result["version"] or ""
