"""What the pool and its helper processes say to each other.

A message is a head, which is JSON, and a body, which is passed on as it is: what is in it is encoded already, and may be
large. Before them stand their lengths. Nothing is pickled (R3). To the helper go calls and acknowledgements of checkpoints;
from it come notes, the last of which is the answer.
"""

from __future__ import annotations

import struct
from typing import Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["done", "failed", "checkpoint", "progress", "line", "output"]

PREFIX = struct.Struct(">IQ")
"""The lengths of head and body."""
GRACE = 2.0
"""Seconds that an idle helper has for leaving in good order, before it is killed."""

_encode = msgspec.json.Encoder().encode


class AttemptInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a function may know about the attempt that runs it. `transient` and `permanent` are the classes that a retry
    policy names, as "module:Class"; a name that leads nowhere is passed over."""

    run: str
    node: str
    attempt: int = 1
    idempotency_key: str = ""
    checkpoint: bytes | None = None
    feedback: bytes | None = None
    transient: tuple[str, ...] = ()
    permanent: tuple[str, ...] = ()


class Call(msgspec.Struct, frozen=True, tag="call"):
    """Run this function; the body holds its inputs. `number` comes back in every note about it."""

    number: int
    entry: str
    main: str
    attempt: AttemptInfo


class Ack(msgspec.Struct, frozen=True, tag="ack"):
    """The checkpoint with this serial number is kept. If `ends`, the call is to end there."""

    serial: int
    ends: bool = False


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a helper says about a call. The body is the result, the failure, the checkpoint, the progress, the line or
    what there is to know of a file that is written."""

    kind: Kind
    call: int
    serial: int = 0


read_order = msgspec.json.Decoder(Call | Ack).decode
read_note = msgspec.json.Decoder(Note).decode


def opening(head: Call | Ack | Note, body: bytes) -> bytes:
    """All of a message but its body, which may be too large to be copied for nothing."""
    told = _encode(head)
    return PREFIX.pack(len(told), len(body)) + told
