"""The format object of a bucket: the version of the contract that its store carries."""

from __future__ import annotations

import msgspec

from outlast.errors import StoreUnusable
from outlast.stores.objects import keys
from outlast.stores.shared import VERSION, check_version

FORMAT = msgspec.json.encode({"format": VERSION, "what": "runs of Outlast"})


def check_format(body: bytes, where: str) -> None:
    """Refuse a bucket of another program or of another version."""
    try:
        version = int(msgspec.json.decode(body)["format"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        raise StoreUnusable(f"{where} has an object {keys.FORMAT} that is not Outlast's; nothing was changed") from None
    check_version(where, version)
