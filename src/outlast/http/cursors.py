"""Page cursors: opaque texts that are bound to the filter they were made for."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import msgspec

from outlast.http.problems import HttpError


def cursor_of(filter: Any, after: str) -> str:
    """The cursor that continues a list; empty at its end."""
    return urlsafe_b64encode(f"{_digest(filter)}:{after}".encode()).decode() if after else ""


def after_of(filter: Any, cursor: str) -> str:
    """Where to continue; refused if the cursor was made for another filter, or by nobody."""
    if not cursor:
        return ""
    try:
        digest, _, after = urlsafe_b64decode(cursor.encode()).decode().partition(":")
    except (ValueError, UnicodeError):
        digest, after = "", ""
    if not after or digest != _digest(filter):
        raise HttpError("http.invalid", "this cursor belongs to another list: begin without one", field="query.cursor")
    return after


def _digest(filter: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(filter)).hexdigest()[:16]
