"""Leases of services: which of several processes does a job for the store.

A lease is a document with its holder and its end by the store's clock. It saves work, and nothing is correct because of it:
a process that was stopped for a while still believes that it holds the lease. So every job is safe if two processes do it at
the same time.
"""

from __future__ import annotations

import os

import msgspec
from msgspec import Struct

from outlast.store import Document, Store

FOLDER = "lease/"


class ServiceLease(Struct, frozen=True):
    """Who does the job of a service until when, in microseconds of the store's clock."""

    holder: str
    until: int


async def acquire(store: Store, service: str, holder: str, ttl: float) -> bool:
    """Take the lease of a service for `ttl` seconds, or extend it. False: another process holds it."""
    there, now = await store.document(FOLDER + service), await store.now()
    lease = _read(there)
    if lease is not None and lease.holder != holder and lease.until > now:
        return False
    body = msgspec.json.encode(ServiceLease(holder, now + round(ttl * 1e6)))
    new = Document(FOLDER + service, os.urandom(16).hex(), body)
    return await store.put_document(new, replaces=there.version if there is not None else "")


async def resign(store: Store, service: str, holder: str) -> None:
    """End the lease of a service, if this process holds it."""
    there = await store.document(FOLDER + service)
    lease = _read(there)
    if there is not None and lease is not None and lease.holder == holder:
        await store.remove_document(there.name, there.version)


async def lease_of(store: Store, service: str) -> ServiceLease | None:
    """Return the lease of a service, unless it has ended."""
    lease = _read(await store.document(FOLDER + service))
    return lease if lease is not None and lease.until > await store.now() else None


def _read(document: Document | None) -> ServiceLease | None:
    """Return the lease in a document. One that cannot be decoded is replaced."""
    try:
        return msgspec.json.decode(document.body, type=ServiceLease) if document is not None else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
