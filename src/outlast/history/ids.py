"""Ids of runs, workers and appends: new ids are ordered by time, derived ids are the same for the same arguments."""

from __future__ import annotations

import hashlib
import re
from binascii import b2a_base64
from typing import NewType

from msgspec import Raw

from outlast.errors import InvalidInput

RunId = NewType("RunId", str)
"""The id of a run. A UUIDv7 unless the caller chose it."""

WorkerId = NewType("WorkerId", str)
"""The id of one worker process. A restarted worker has another id."""

AppendId = NewType("AppendId", bytes)
"""Sixteen bytes that are unique to an append, so that a repeated append is recognised."""

_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
"""The variant digit of a UUID, from the random digit in its position."""
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
        hasher.update(len(text).to_bytes(8, "big") + text)  # with the length, so that different lists never collide
    digits = hasher.hexdigest()
    return RunId(f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-{_VARIANT[digits[16]]}{digits[17:20]}-{digits[20:]}")


def content_hash(content: bytes) -> str:
    """The hash that names a blob or a version."""
    return hashlib.blake2b(content, digest_size=32).hexdigest()


_REPETITION = re.compile(r"~(?:b[0-9]+(?:\.[0-9]+)?|[0-9]+)$")


def question_of(interaction: str) -> str:
    """The name of a question without its repetition: `ask` for `ask~2`, `ask~b3` and `ask~b3.2`."""
    return _REPETITION.sub("", interaction)


def input_hash(inputs: bytes | Raw) -> str:
    """Six characters that are the same in every process for the same encoded inputs."""
    content = len(inputs).to_bytes(8, "big") + bytes(inputs)
    return b2a_base64(hashlib.blake2b(content, digest_size=4).digest())[:6].translate(_URL_SAFE).decode()


def checked_run(name: str) -> RunId:
    """`name` as a run id, or `InvalidInput`: ids travel in URLs, file names and object keys."""
    if not _ALLOWED.fullmatch(name):
        raise InvalidInput(
            f"{name[:80]!r} cannot be a run id: use 1 to 200 letters, digits and any of . _ : @ = + - "
            "beginning with a letter or a digit"
        )
    return RunId(name)
