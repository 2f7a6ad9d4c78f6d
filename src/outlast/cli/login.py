"""`outlast login` and `outlast logout`: tokens for servers."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Coroutine
from typing import Any

from outlast.cli.console import notice
from outlast.cli.entrypoint import MISUSED, SOUND, command
from outlast.errors import InvalidInput
from outlast.settings import Settings

NO_SERVER = "name the server with --server URL, --profile NAME or the variable OUTLAST_URL"


@command
def login(settings: Settings) -> Coroutine[Any, Any, int]:
    """Keep the token for a server, in a file that only you can read.

    The token is read from the terminal without echo, or from stdin. An admin
    creates it with `outlast token create`.

    \b
    outlast login --server https://outlast.example.com
    outlast login --profile prod < token.txt
    """
    _require_server(settings)
    token = getpass.getpass(f"Token for {settings.url}: ") if sys.stdin.isatty() else sys.stdin.readline()
    if not token.strip():
        raise InvalidInput("there is no token: enter it, or send it on stdin")
    return _login(settings.url, token.strip())


async def _login(address: str, token: str) -> int:
    from outlast.remote import credentials
    from outlast.remote.opening import connected

    async with connected(address, token) as engine:
        found = await engine.who()
    path = credentials.keep(address, token)
    notice(f"signed in to {address} as {found.by}, role {found.role}", f"The token is in {path}", style="bold")
    return SOUND


@command
async def logout(settings: Settings) -> int:
    """Forget the token for a server. It stays valid: `outlast token revoke` ends it.

    \b
    outlast logout --server https://outlast.example.com
    """
    from outlast.remote import credentials

    _require_server(settings)
    if not credentials.forget(settings.url):
        notice(f"there is no token for {settings.url}")
        return MISUSED
    notice(f"the token for {settings.url} is forgotten", style="bold")
    return SOUND


def _require_server(settings: Settings) -> None:
    if not settings.url:
        raise InvalidInput(NO_SERVER)
