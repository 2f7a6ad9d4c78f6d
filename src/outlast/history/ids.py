"""Names of things: typed, time-ordered where they are new, derived where they must be found again."""

from __future__ import annotations

import hashlib
import re
from binascii import b2a_base64
from typing import NewType

from msgspec import Raw

from outlast.errors import InvalidInput

RunId = NewType("RunId", str)
"""One execution. A UUIDv7 unless the caller chose it."""

WorkerId = NewType("WorkerId", str)
"""One incarnation of a worker: a process that dies and comes back is another one."""

AppendId = NewType("AppendId", bytes)
"""Sixteen bytes that are never used for a second append, so that a repeated one is recognised."""

_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
"""The digit that says by which rules a UUID is made, from the random one in its place."""
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_ALLOWED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@=+-]{0,199}")


def uuid7(unix_ms: int, entropy: bytes) -> str:
    """A UUID of version 7 from a time in milliseconds and ten random bytes: later ones sort later."""
    digits = f"{unix_ms & 0xFFFF_FFFF_FFFF:012x}{entropy[:10].hex()}"
    return f"{digits[:8]}-{digits[8:12]}-7{digits[13:16]}-{_VARIANT[digits[16]]}{digits[17:20]}-{digits[20:]}"


def derived_run(source: str, *names: str) -> RunId:
    """The id of the run that `source` starts for `names`: the same arguments always give the same id."""
    hasher = hashlib.blake2b(digest_size=16)
    for name in (source, *names):
        text = name.encode()
        hasher.update(len(text).to_bytes(8, "big") + text)  # with the length, so that no two lists of names are alike
    digits = hasher.hexdigest()
    return RunId(f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-{_VARIANT[digits[16]]}{digits[17:20]}-{digits[20:]}")


def content_hash(content: bytes) -> str:
    """The name of a blob, and of a version: what is in it."""
    return hashlib.blake2b(content, digest_size=32).hexdigest()


_ANEW = re.compile(r"~(?:b[0-9]+(?:\.[0-9]+)?|[0-9]+)$")


def question_of(interaction: str) -> str:
    """The name of a question, however often it was asked anew: `ask` of `ask~2`, `ask~b3` and `ask~b3.2`."""
    return _ANEW.sub("", interaction)


def input_hash(inputs: bytes | Raw) -> str:
    """Six characters that stay the same, in every process, as long as the encoded inputs do."""
    told = len(inputs).to_bytes(8, "big") + bytes(inputs)
    return b2a_base64(hashlib.blake2b(told, digest_size=4).digest())[:6].translate(_URL_SAFE).decode()


def checked_run(name: str) -> RunId:
    """`name` as a run id, or `InvalidInput`: ids travel in URLs, file names and object keys."""
    if not _ALLOWED.fullmatch(name):
        raise InvalidInput(
            f"{name[:80]!r} cannot be a run id: use 1 to 200 letters, digits and any of . _ : @ = + - "
            "beginning with a letter or a digit"
        )
    return RunId(name)
