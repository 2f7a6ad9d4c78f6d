"""The protocol between the pool and its helper processes.

A message is a head, which is JSON, and a body, which is passed on unchanged: it is already encoded, and may be large.
Their lengths precede them. Nothing is pickled (R3). The helper receives calls and acknowledgements of checkpoints; it
sends notes, and the last note of a call is its outcome.
"""

from __future__ import annotations

import struct
from typing import Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["done", "failed", "checkpoint", "progress", "line", "output"]

PREFIX = struct.Struct(">IQ")
"""The lengths of head and body."""
GRACE = 2.0
"""Seconds that an idle helper has to exit by itself, before it is killed."""

_encode = msgspec.json.Encoder().encode


class AttemptInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """The data of an attempt that its function can read. `transient` and `permanent` are the classes that a retry
    policy names, as "module:Class"; unknown names are skipped."""

    run: str
    node: str
    attempt: int = 1
    idempotency_key: str = ""
    checkpoint: bytes | None = None
    feedback: bytes | None = None
    transient: tuple[str, ...] = ()
    permanent: tuple[str, ...] = ()


class Call(msgspec.Struct, frozen=True, tag="call"):
    """Run the function named `entry`, from a module or from the script `main`; the body holds its inputs. Every note about
    the call repeats `number`."""

    entry: str
    main: str
    attempt: AttemptInfo
    number: int = 1


class Ack(msgspec.Struct, frozen=True, tag="ack"):
    """The checkpoint with this serial number is durable. If `ends`, the call must end there."""

    serial: int
    ends: bool = False


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message about a call. The body is the result, failure, checkpoint, progress, log line or output file."""

    kind: Kind
    call: int
    serial: int = 0


read_order = msgspec.json.Decoder(Call | Ack).decode
read_note = msgspec.json.Decoder(Note).decode


def opening(head: Call | Ack | Note, body: bytes) -> bytes:
    """A message without its body, which may be too large to copy."""
    encoded = _encode(head)
    return PREFIX.pack(len(encoded), len(body)) + encoded
