"""Translates the driver's errors. Only this module uses PostgreSQL's error codes.

This module alone decides which errors leave the outcome open. The server reports the result of every statement, unless it
shuts down or the connection breaks first: only then is the outcome of a write unknown. If the server did report an error,
the transaction was rolled back.
"""

from __future__ import annotations

import asyncio

import asyncpg

from outlast.errors import (
    Damaged,
    InvalidInput,
    OutcomeUnknown,
    OutlastError,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnusable,
)
from outlast.stores.shared import check_version

DRIVERS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
    asyncio.IncompleteReadError,
)
"""Errors of the driver. A broken connection may raise any but the first."""

CONFLICTS = ("40001", "40P01")
"""The transaction conflicted with another one and was rolled back; the store retries it at once."""
_SHUTTING_DOWN = ("57P01", "57P02", "57P05")
_STARTING = ("57P03", "53300", "53400")
_FULL = ("53100",)
_BUSY = ("55P03", "57014", "53200", "53000", *CONFLICTS)
_READ_ONLY = ("25006",)
_DENIED = ("42501",)
_MISSING = ("42P01", "42883", "3F000", "3D000")
_NO_STORE = ("42703", "42804")
DROPPED = (*_MISSING, *_NO_STORE)
"""A table, a function or a column does not exist: it was dropped, or the store has another version by now."""
_OTHER_VERSION = "OL001"
"""Raised by the functions of the schema, with the version of the store."""
_DAMAGED = ("XX001", "XX002", "23505")  # the last: the log already has a row after its head
GRANTS = (
    "this role needs USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on its tables and EXECUTE on its functions; the "
    "role that creates a store also needs CREATE on the database"
)


def is_cut(error: BaseException) -> bool:
    """Return whether the connection broke, so that the outcome of the statement is unknown."""
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        return state in _SHUTTING_DOWN or state.startswith("08") or error.severity in ("FATAL", "PANIC")
    return isinstance(error, DRIVERS)


def while_connecting(error: BaseException, where: str) -> OutlastError:
    """Translate an error during connecting: nothing was written."""
    state = getattr(error, "sqlstate", None) or ""
    if state[:2] == "28" or state == "3D000":
        return StoreUnusable(f"could not open {where}: {error}")
    if state in _DENIED:
        return StoreUnusable(f"could not open {where}: {error}; {GRANTS}")
    if isinstance(error, asyncpg.ClientConfigurationError | ValueError) and not isinstance(error, OSError):
        return InvalidInput(f"could not open {where}: {error}")
    return StoreBusy(f"could not reach {where}: {message_of(error)}; nothing was written")


def is_worth_waiting_for(error: BaseException) -> bool:
    """Return whether a later attempt to connect may succeed."""
    if isinstance(error, asyncpg.PostgresError):
        return error.sqlstate in _STARTING or (is_cut(error) and (error.sqlstate or "")[:2] not in ("28", "3D"))
    return isinstance(error, OSError | TimeoutError | asyncio.IncompleteReadError)


def while_writing(error: BaseException, where: str) -> OutlastError:
    """Translate an error of a statement that writes."""
    if is_cut(error):
        return OutcomeUnknown(f"the connection to {where} broke: {message_of(error)}; the outcome is unknown")
    return _refused(error, f"write to {where}")


def while_reading(error: BaseException, where: str) -> OutlastError:
    """Translate an error of a statement that only reads."""
    if is_cut(error):
        return StoreBusy(f"the connection to {where} broke: {message_of(error)}")
    return _refused(error, f"read {where}")


def _refused(error: BaseException, what: str) -> OutlastError:
    """Translate an error that the server reported: the transaction was rolled back."""
    state = getattr(error, "sqlstate", None) or ""
    match state:
        case _ if state == _OTHER_VERSION:
            return _other_version(what, int(message_of(error)))
        case _ if state in _FULL:
            return StoreFull(f"could not {what}: no space is left ({message_of(error)}); nothing was written")
        case _ if state in _READ_ONLY:
            return StoreReadOnly(f"could not {what}: it may only be read ({message_of(error)}); nothing was written")
        case _ if state in _DENIED:
            kind = StoreUnusable if what.startswith("read") else StoreReadOnly
            return kind(f"could not {what}: {message_of(error)}; {GRANTS}; nothing was written")
        case _ if state in _MISSING:
            return StoreUnusable(
                f"could not {what}: a part of the store is missing ({message_of(error)}): its schema, a table or a function "
                "was dropped; restore the store from a backup"
            )
        case _ if state in _BUSY:
            return StoreBusy(f"could not {what}: the server is busy ({message_of(error)}); nothing was written")
        case _ if state in _NO_STORE:
            return StoreUnusable(f"could not {what}: the tables are of another version ({message_of(error)})")
        case _ if state in _DAMAGED:
            return Damaged(f"could not {what}: the server reported damage ({message_of(error)})")
        case _:
            return StoreError(f"could not {what}: {message_of(error)}; nothing was written")


def _other_version(what: str, version: int) -> OutlastError:
    from outlast.stores.postgres.schema import VERSION

    try:
        check_version(f"could not {what}: it", version, VERSION)
    except StoreUnusable as error:
        return error
    return StoreError(f"could not {what}: it reported another version; nothing was written")


def message_of(error: BaseException) -> str:
    """Return the message of an error, or its type if it is empty."""
    return str(error) or type(error).__name__
