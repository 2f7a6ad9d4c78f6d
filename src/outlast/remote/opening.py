"""Opens the engine of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from outlast.compose import Opening
from outlast.definition.durations import Seconds, seconds
from outlast.errors import InvalidInput, NotSetUp
from outlast.remote.credentials import token_for
from outlast.settings import read_settings

if TYPE_CHECKING:
    from outlast.remote.engine import RemoteEngine

INSTALL = "a server needs another package: pip install 'outlast[client]'"
PATIENCE_S = 60.0


def connect(
    url: str | None = None, *, token: str | None = None, profile: str | None = None, patience: Seconds = PATIENCE_S
) -> Opening:
    """The engine of a server: `async with connect("https://outlast.example.com") as engine:`, or `with` in code that does
    not await. It has the verbs of an engine that `open` opens.

    Without `url` or `profile` the settings name the server. Without `token` it is that of the variable OUTLAST_TOKEN, of
    the profile, or of `outlast login`. A request that cannot reach the server is repeated for `patience` (seconds or
    `timedelta`) if that is safe, and `watch` reconnects."""
    settings = read_settings({"url": url, "profile": profile})
    if not settings.url:
        raise InvalidInput('no server is named: give its address, as in connect("http://127.0.0.1:8470")')
    given = token if token is not None else token_for(settings.url, settings.profile)
    return Opening(partial(connected, settings.url, given, patience_s=seconds(patience, "patience")))


@asynccontextmanager
async def connected(address: str, token: str, *, patience_s: float = PATIENCE_S) -> AsyncIterator[RemoteEngine]:
    """The engine of the server at an address. No request is sent before the first verb."""
    try:
        from outlast.remote import views  # noqa: F401 - the reports of a server
        from outlast.remote.connection import Connection
        from outlast.remote.engine import RemoteEngine
    except ImportError as error:
        raise NotSetUp(f"{INSTALL} ({error})") from error
    connection = Connection(address, token, patience_s=patience_s)
    try:
        yield RemoteEngine(connection)
    finally:
        await connection.close()
