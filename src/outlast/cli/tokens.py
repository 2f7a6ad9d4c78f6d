"""`outlast token`: the tokens of a server, in its store or over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from outlast.cli.command import Command, group
from outlast.cli.console import notice, write_json
from outlast.cli.entrypoint import SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import Form, FormOption, login_name
from outlast.compose import open_settled
from outlast.errors import InvalidInput
from outlast.settings import Settings
from outlast.views.times import local, micros

if TYPE_CHECKING:
    from outlast.http.auth import Auth
    from outlast.views.types import NewTokenView, TokenListView

tokens = group("Create, list and revoke tokens of the HTTP server.")


class Tokens(Protocol):
    """The tokens of a server."""

    async def create_token(self, name: str, role: Any, expires_s: float | None) -> NewTokenView: ...
    async def tokens(self) -> TokenListView: ...
    async def revoke_token(self, id: str) -> None: ...


class StoredTokens:
    """The tokens in a store."""

    def __init__(self, auth: Auth) -> None:
        self._auth = auth

    async def create_token(self, name: str, role: Any, expires_s: float | None) -> NewTokenView:
        from outlast.views.server import token_view
        from outlast.views.types import NewTokenView

        secret, made = await self._auth.create("token", name, role, expires_s=expires_s, by=login_name())
        return NewTokenView(token=token_view(made), secret=secret)

    async def tokens(self) -> TokenListView:
        from outlast.views.server import token_view
        from outlast.views.types import TokenListView

        return TokenListView(tokens=tuple(map(token_view, await self._auth.list("token"))))

    async def revoke_token(self, id: str) -> None:
        await self._auth.revoke("token", id)


@asynccontextmanager
async def _auth(settings: Settings, *, readonly: bool = False) -> AsyncIterator[Auth]:
    from outlast.http.auth import Auth

    store = open_settled(settings, readonly=readonly)
    try:
        yield Auth(store)
    finally:
        await store.close()


@asynccontextmanager
async def _tokens(settings: Settings, *, readonly: bool = False) -> AsyncIterator[Tokens]:
    if settings.url:
        there: AbstractAsyncContextManager[Any] = opened(settings)
        async with there as engine:
            yield engine
    else:
        async with _auth(settings, readonly=readonly) as auth:
            yield StoredTokens(auth)


@tokens.command("create", cls=Command)
@command
async def create_token(
    settings: Settings,
    name: Annotated[str, typer.Argument(help="What the token is for.")],
    role: Annotated[str, typer.Option("--role", metavar="viewer|operator|admin", help="What it may do.")] = "viewer",
    expires: Annotated[float | None, typer.Option("--expires", metavar="DAYS", help="Days until it ends.")] = None,
    output: FormOption = Form.TEXT,
) -> int:
    """Create a token and print its secret, which is not stored.

    \b
    export OUTLAST_TOKEN=$(outlast token create deploy --role operator)
    """
    from outlast.http.permissions import ROLES

    if role not in ROLES:
        raise InvalidInput(f"--role is one of {', '.join(ROLES)}, not {role!r}")
    if expires is not None and not 0 < expires <= 36_500:
        raise InvalidInput(f"--expires is a number of days above 0, not {expires:g}")
    async with _tokens(settings) as known:
        made = await known.create_token(name, role, None if expires is None else expires * 86_400)
    if output is Form.JSON:
        write_json(made, pretty=True)
    else:
        typer.echo(made.secret)
        notice(f"token {made.token.id} of role {made.token.role}; it is shown this once")
    return SOUND


@tokens.command("list", cls=Command)
@command
async def list_tokens(settings: Settings, output: FormOption = Form.TEXT) -> int:
    """List tokens with role, expiry and last use; never their secrets."""
    async with _tokens(settings, readonly=True) as known:
        found = await known.tokens()
    if output is Form.JSON:
        write_json(found, pretty=True)
        return SOUND
    for each in found.tokens:
        used = f"last used {_day(each.used)}" if each.used else "never used"
        ends = f"expires {_day(each.expires)}" if each.expires else "does not expire"
        typer.echo(f"{each.id}  {each.role:<8}  {each.name}  created {_day(each.created)}, {ends}, {used}")
    if not found.tokens:
        notice("there are no tokens")
    return SOUND


def _day(time: str | None) -> str:
    return local(micros(time) or 0, full=True)[:16] if time else "-"


@tokens.command("revoke", cls=Command)
@command
async def revoke_token(
    settings: Settings, id: Annotated[str, typer.Argument(help="The id of the token, from `outlast token list`.")]
) -> int:
    """Revoke a token; running servers refuse it within seconds."""
    async with _tokens(settings) as known:
        await known.revoke_token(id)
    notice(f"token {id} is revoked")
    return SOUND


@tokens.command("link", cls=Command)
@partial(command, store_only="use it where the store is")
async def sign_in_link(
    settings: Settings,
    address: Annotated[str, typer.Option("--url", metavar="URL", help="Address of the server.")] = (
        "http://127.0.0.1:8470"
    ),
) -> int:
    """Print a one-time link to sign in as admin. It ends after ten minutes."""
    from outlast.http.auth import SIGN_IN_S

    async with _auth(settings) as auth:
        text, _ = await auth.create("sign-in", login_name() or "admin", "admin", expires_s=SIGN_IN_S)
    typer.echo(f"{address.rstrip('/')}/sign-in#{text}")
    return SOUND
