"""The engine that a command uses: over the store, or of the server that the settings name."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from outlast.client import Engine
from outlast.compose import open_desk
from outlast.errors import InvalidInput
from outlast.settings import Settings

PATIENCE_S = 10.0
"""How long a command waits for a server that was there a moment ago."""


def opened(
    settings: Settings, *, signing_key: bytes = b"", readonly: bool = False
) -> AbstractAsyncContextManager[Engine]:
    """An engine without a worker. With `readonly`, no store is created."""
    if not settings.url:
        return open_desk(settings, signing_key=signing_key, readonly=readonly)
    if signing_key:
        raise InvalidInput("--key-file: a server verifies with its own key: omit --key-file")
    from outlast.remote.credentials import token_for
    from outlast.remote.opening import connected

    return connected(settings.url, token_for(settings.url, settings.profile), patience_s=PATIENCE_S)
