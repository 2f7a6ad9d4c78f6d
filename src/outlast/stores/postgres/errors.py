"""The driver's errors as ours: the only module that knows what PostgreSQL calls them.

Which of them leave the outcome open is decided here and nowhere else. The server says what happened to a statement, unless
it goes down or the line is cut before it could: only then is a write in doubt. An error that the server did send means that
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

DRIVERS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
    asyncio.IncompleteReadError,
)
"""What the driver raises; a cut line may come as any but the first."""

PASSING = ("40001", "40P01")
"""Two transactions stood in each other's way and this one was undone: to be tried again at once."""
_GOES_DOWN = ("57P01", "57P02", "57P05")
_COMING_UP = ("57P03", "53300", "53400")
_FULL = ("53100",)
_BUSY = ("55P03", "57014", "53200", "53000", *PASSING)
_READ_ONLY = ("25006",)
_DENIED = ("42501",)
_DROPPED = ("42P01", "42883", "3F000", "3D000")
_NO_STORE = ("42703", "42804")
_DAMAGED = ("XX001", "XX002", "23505")  # the last: a row is there already that follows its head
GRANTS = (
    "this role needs USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on its tables and EXECUTE on its functions; the "
    "first one to open a store also needs CREATE on the database"
)


def is_cut(error: BaseException) -> bool:
    """Whether the line to the server is gone, so that the statement may have been carried out or not."""
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        return state in _GOES_DOWN or state.startswith("08") or error.severity in ("FATAL", "PANIC")
    return isinstance(error, DRIVERS)


def while_connecting(error: BaseException, where: str) -> OutlastError:
    """Nothing was sent yet, so nothing was written."""
    state = getattr(error, "sqlstate", None) or ""
    if state[:2] == "28" or state == "3D000":
        return StoreUnusable(f"could not open {where}: {error}")
    if state in _DENIED:
        return StoreUnusable(f"could not open {where}: {error}; {GRANTS}")
    if isinstance(error, asyncpg.ClientConfigurationError | ValueError) and not isinstance(error, OSError):
        return InvalidInput(f"could not open {where}: {error}")
    return StoreBusy(f"could not reach {where}: {said(error)}; nothing was written")


def is_worth_waiting_for(error: BaseException) -> bool:
    """Whether a server that cannot be connected to may be there a moment later."""
    if isinstance(error, asyncpg.PostgresError):
        return error.sqlstate in _COMING_UP or (is_cut(error) and (error.sqlstate or "")[:2] not in ("28", "3D"))
    return isinstance(error, OSError | TimeoutError | asyncio.IncompleteReadError)


def while_writing(error: BaseException, where: str) -> OutlastError:
    """A statement that writes failed."""
    if is_cut(error):
        return OutcomeUnknown(f"the line to {where} was cut: {said(error)}; whether it was written is unknown")
    return _refused(error, f"write to {where}")


def while_reading(error: BaseException, where: str) -> OutlastError:
    """A statement that only reads failed."""
    if is_cut(error):
        return StoreBusy(f"the line to {where} was cut: {said(error)}")
    return _refused(error, f"read {where}")


def _refused(error: BaseException, what: str) -> OutlastError:
    """The server said no, and undid the transaction."""
    state = getattr(error, "sqlstate", None) or ""
    match state:
        case _ if state in _FULL:
            return StoreFull(f"could not {what}: no space is left ({said(error)}); nothing was written")
        case _ if state in _READ_ONLY:
            return StoreReadOnly(f"could not {what}: it may only be read ({said(error)}); nothing was written")
        case _ if state in _DENIED:
            kind = StoreUnusable if what.startswith("read") else StoreReadOnly
            return kind(f"could not {what}: {said(error)}; {GRANTS}; nothing was written")
        case _ if state in _DROPPED:
            return StoreUnusable(
                f"could not {what}: a part of the store is missing ({said(error)}): its schema, a table or a function was "
                "dropped; restore it from a backup"
            )
        case _ if state in _BUSY:
            return StoreBusy(f"could not {what}: it is busy ({said(error)}); nothing was written")
        case _ if state in _NO_STORE:
            return StoreUnusable(f"could not {what}: the tables are not those of this version ({said(error)})")
        case _ if state in _DAMAGED:
            return Damaged(f"could not {what}: the server found damage ({said(error)})")
        case _:
            return StoreError(f"could not {what}: {said(error)}; nothing was written")


def said(error: BaseException) -> str:
    """What an error says."""
    return str(error) or type(error).__name__
