"""`outlast serve`, `outlast dev` and `outlast token`: the HTTP server and its tokens."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from outlast.cli.code_import import load_here, log_info
from outlast.cli.command import Command, group
from outlast.cli.console import notice, write_json
from outlast.cli.engine_log import LogFormatOption, QuietOption, VerboseOption, log_to_stderr
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.options import Form, FormOption, StoreOption, login_name, settings_of
from outlast.errors import InvalidInput, NotSetUp
from outlast.settings import Settings

if TYPE_CHECKING:
    from outlast.http.auth import Auth
    from outlast.http.state import ServerState

RELOAD_POLL_S = 0.5
INSTALL = "the server needs more packages: pip install 'outlast[server]'"

AppsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[APP]...", help="Modules or files that define workflows.")
]
HostOption = Annotated[str, typer.Option("--host", help="Address to listen on.")]
PortOption = Annotated[int, typer.Option("--port", help="Port to listen on; 0 chooses one.", min=0, max=65535)]
InsecureOption = Annotated[
    bool, typer.Option("--insecure-local", help="Let everybody on this machine in without a token (loopback only).")
]


def serve(
    ctx: typer.Context,
    apps: AppsArgument = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8470,
    on_restart: Annotated[
        str | None, typer.Option("--on-restart", metavar="resume|hold", help="What becomes of interrupted runs.")
    ] = None,
    no_worker: Annotated[bool, typer.Option("--no-worker", help="Serve only; other processes advance runs.")] = False,
    reload: Annotated[bool, typer.Option("--reload", help="Start again when a module changes.")] = False,
    insecure_local: InsecureOption = False,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", metavar="NAME", help="Another host name of this server.")
    ] = None,
    root_path: Annotated[
        str | None, typer.Option("--root-path", metavar="PATH", help="Path prefix behind a proxy.")
    ] = None,
    trust_proxy: Annotated[
        list[str] | None,
        typer.Option("--trust-proxy", metavar="ADDRESS", help="A proxy whose X-Forwarded-* headers count."),
    ] = None,
    rate: Annotated[float, typer.Option("--rate", help="Requests a second for each token; 0 is no limit.", min=0)] = 0,
    oidc_issuer: Annotated[
        str | None, typer.Option("--oidc-issuer", metavar="URL", help="Provider for sign-in with OpenID Connect.")
    ] = None,
    oidc_client: Annotated[
        str, typer.Option("--oidc-client", metavar="ID", help="Client id there; its secret is in OUTLAST_OIDC_SECRET.")
    ] = "outlast",
    oidc_claim: Annotated[
        str, typer.Option("--oidc-claim", metavar="NAME", help="Claim of the ID token that gives roles.")
    ] = "groups",
    oidc_role: Annotated[
        list[str] | None,
        typer.Option("--oidc-role", metavar="VALUE=ROLE", help="Role of accounts with this value of the claim."),
    ] = None,
    grace: Annotated[float, typer.Option("--grace", help="Seconds for open requests at shutdown.", min=0)] = 10,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
    log_format: LogFormatOption = None,
    store: StoreOption = None,
) -> None:
    """Serve the HTTP API, and advance runs.

    At start it repairs inconsistent runs and takes over interrupted ones before
    it is ready. The first start prints a one-time sign-in link on the terminal.

    \b
    [dim]outlast serve flows.py
    outlast serve flows --store postgresql://db/outlast --host 0.0.0.0[/dim]
    """
    if reload:
        raise typer.Exit(_supervised(apps or ()))
    given = {
        "host": host,
        "port": port,
        "worker": not no_worker,
        "insecure_local": insecure_local,
        "allow_hosts": tuple(allow_host or ()),
        "root_path": (root_path or "").rstrip("/"),
        "trusted_proxies": tuple(trust_proxy or ()),
        "rate": rate,
        "grace": grace,
        "oidc": _oidc(oidc_issuer, oidc_client, oidc_claim, oidc_role or ()),
        "verbose": verbose,
        "quiet": quiet,
        "log_format": log_format,
    }
    carry_out(lambda: _begin(ctx, store, tuple(apps or ()), on_restart, given))


def _oidc(issuer: str | None, client: str, claim: str, given: Sequence[str]) -> dict[str, Any] | None:
    """The fields of `OidcOptions`; None without an issuer."""
    if issuer is None:
        return None
    roles = dict(each.rpartition("=")[::2] for each in given)
    if wrong := [role for role in roles.values() if role not in ("viewer", "operator", "admin")]:
        raise InvalidInput(f"--oidc-role is VALUE=viewer, VALUE=operator or VALUE=admin, not {wrong[0]!r}")
    secret = os.environ.get("OUTLAST_OIDC_SECRET", "")
    return {"issuer": issuer, "client": client, "secret": secret, "claim": claim, "roles": roles}


def dev(
    ctx: typer.Context,
    apps: AppsArgument = None,
    port: PortOption = 8470,
    store: StoreOption = None,
) -> None:
    """Serve for development: on this machine without a token, again when a module changes.

    \b
    [dim]outlast dev flows.py[/dim]
    """
    named = store if store is not None else ctx.obj
    more = [*(["--store", named] if named else []), "--port", str(port), "--insecure-local"]
    raise typer.Exit(_supervised(apps or (), ["serve", *(apps or ()), *more]))


def _begin(
    ctx: typer.Context, store: str | None, apps: tuple[str, ...], on_restart: str | None, given: dict[str, Any]
) -> Coroutine[Any, Any, int]:
    if on_restart not in (None, "resume", "hold"):
        raise InvalidInput(f"--on-restart is resume or hold, not {on_restart!r}")
    if given["insecure_local"] and given["host"] not in ("127.0.0.1", "::1", "localhost"):
        raise InvalidInput(f"--insecure-local serves on loopback only, not on {given['host']}")
    if "*" in given["trusted_proxies"]:
        raise InvalidInput("--trust-proxy names a proxy or a network: with * any client could name its address itself")
    settings = settings_of(ctx, store)
    load_here(list(apps), settings)
    changed: dict[str, Any] = {"apps": ()} | ({"on_restart": on_restart} if on_restart else {})
    return _serve(msgspec.structs.replace(settings, **changed), given)


async def _serve(settings: Settings, given: dict[str, Any]) -> int:
    try:
        from outlast.cli.page_build import build_page
        from outlast.http.auth import OidcOptions
        from outlast.http.server import Options
        from outlast.http.server import serve as serve_http
    except ImportError as error:
        raise NotSetUp(f"{INSTALL} ({error})") from error
    log_info()
    log_to_stderr(verbose=given.pop("verbose"), quiet=given.pop("quiet"), log_format=given.pop("log_format"))
    oidc = given.pop("oidc")
    options = Options(**given, oidc=OidcOptions(**oidc) if oidc else None)

    building: list[asyncio.Task[None]] = []

    async def announce(state: ServerState, address: str) -> None:
        notice(f"serving {address}", style="bold")
        if options.insecure_local:
            notice(f"everybody on this machine may use it without a token: {address}/")
        elif await _is_first(state.auth):
            await _show_link(state.auth, address)
        building.append(asyncio.create_task(build_page()))

    try:
        await serve_http(settings, options, announce=announce)
    finally:
        for task in building:
            task.cancel()
        await asyncio.gather(*building, return_exceptions=True)
    return SOUND


async def _is_first(auth: Auth) -> bool:
    return not await auth.list("token") and not await auth.list("session")


async def _show_link(auth: Auth, address: str) -> None:
    """On the terminal only: whoever reads a log must not be able to sign in."""
    from outlast.http.auth import SIGN_IN_S

    if not sys.stderr.isatty():
        notice(
            "nobody can sign in yet: create a token with `outlast token create`, or a link with `outlast token link`"
        )
        return
    text, _ = await auth.create("sign-in", "admin", "admin", expires_s=SIGN_IN_S)
    minutes = round(SIGN_IN_S / 60)
    sys.stderr.write(f"sign in, once and within {minutes} minutes: {address}/sign-in#{text}\n")
    sys.stderr.flush()


# --- reload


def _supervised(apps: list[str] | tuple[str, ...], words: list[str] | None = None) -> int:
    """Run the same command without --reload in a process of its own, and again when a file of the apps changes."""
    words = words or [each for each in sys.argv[1:] if each != "--reload"]
    folders = {Path(each).resolve().parent if each.endswith(".py") else Path.cwd() for each in apps} or {Path.cwd()}
    leaving = threading.Event()

    def leave(*_: object) -> None:
        leaving.set()

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        while True:
            seen = _stamps(folders)
            child = subprocess.Popen([sys.executable, "-m", "outlast", *words], env=os.environ)
            while child.poll() is None and not leaving.is_set() and _stamps(folders) == seen:
                time.sleep(RELOAD_POLL_S)
            is_changed = _stamps(folders) != seen
            if child.poll() is None:
                child.terminate()
                child.wait()
            if leaving.is_set():
                return SOUND
            if not is_changed:
                notice("the server ended; it starts again when a file changes")
                while not leaving.is_set() and _stamps(folders) == seen:
                    time.sleep(RELOAD_POLL_S)
                if leaving.is_set():
                    return child.returncode
            notice("a file has changed: starting again")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stamps(folders: set[Path]) -> dict[str, float]:
    found: dict[str, float] = {}
    for folder in folders:
        for path in folder.rglob("*.py"):
            if not any(part.startswith(".") for part in path.relative_to(folder).parts):
                try:
                    found[str(path)] = path.stat().st_mtime
                except OSError:
                    continue
    return found


# --- tokens

tokens = group("Create, list and revoke tokens of the HTTP server.")


@asynccontextmanager
async def _auth(settings: Settings, *, readonly: bool = False) -> AsyncIterator[Auth]:
    from outlast.compose import open_settled
    from outlast.http.auth import Auth

    store = open_settled(settings, readonly=readonly)
    try:
        yield Auth(store)
    finally:
        await store.close()


@tokens.command("create", cls=Command)
def create_token(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="What the token is for.")],
    role: Annotated[str, typer.Option("--role", metavar="viewer|operator|admin", help="What it may do.")] = "viewer",
    expires: Annotated[float | None, typer.Option("--expires", metavar="DAYS", help="Days until it ends.")] = None,
    store: StoreOption = None,
    output: FormOption = Form.TEXT,
) -> None:
    """Create a token and print its secret, which is not stored.

    \b
    [dim]export OUTLAST_TOKEN=$(outlast token create deploy --role operator)[/dim]
    """
    carry_out(lambda: _create(settings_of(ctx, store), name, role, expires, output))


async def _create(settings: Settings, name: str, role: str, days: float | None, form: Form) -> int:
    from outlast.http.permissions import ROLES

    if role not in ROLES:
        raise InvalidInput(f"--role is one of {', '.join(ROLES)}, not {role!r}")
    if days is not None and not 0 < days <= 36_500:
        raise InvalidInput(f"--expires is a number of days above 0, not {days:g}")
    chosen: Literal["viewer", "operator", "admin"] = role
    seconds = days * 86_400 if days is not None else None
    async with _auth(settings) as auth:
        text, made = await auth.create("token", name, chosen, expires_s=seconds, by=login_name())
    if form is Form.JSON:
        from outlast.http.shapes import token_view
        from outlast.views.types import NewTokenView

        write_json(NewTokenView(token=token_view(made), secret=text), pretty=True)
    else:
        typer.echo(text)
        notice(f"token {made.id} of role {made.role}; it is shown this once")
    return SOUND


@tokens.command("list", cls=Command)
def list_tokens(ctx: typer.Context, store: StoreOption = None, output: FormOption = Form.TEXT) -> None:
    """List tokens with role, expiry and last use; never their secrets."""
    carry_out(lambda: _list(settings_of(ctx, store), output))


async def _list(settings: Settings, form: Form) -> int:
    async with _auth(settings, readonly=True) as auth:
        found = await auth.list("token")
    if form is Form.JSON:
        from outlast.http.shapes import token_view
        from outlast.views.types import TokenListView

        write_json(TokenListView(tokens=tuple(map(token_view, found))), pretty=True)
        return SOUND
    for each in found:
        used = f"last used {_day(each.used)}" if each.used else "never used"
        ends = f"expires {_day(each.expires)}" if each.expires else "does not expire"
        typer.echo(f"{each.id}  {each.role:<8}  {each.name}  created {_day(each.created)}, {ends}, {used}")
    if not found:
        notice("there are no tokens")
    return SOUND


def _day(seconds: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else "-"


@tokens.command("revoke", cls=Command)
def revoke_token(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(help="The id of the token, from `outlast token list`.")],
    store: StoreOption = None,
) -> None:
    """Revoke a token; running servers refuse it within seconds."""
    carry_out(lambda: _revoke(settings_of(ctx, store), id))


async def _revoke(settings: Settings, id: str) -> int:
    async with _auth(settings) as auth:
        await auth.revoke("token", id)
    notice(f"token {id} is revoked")
    return SOUND


@tokens.command("link", cls=Command)
def sign_in_link(
    ctx: typer.Context,
    address: Annotated[str, typer.Option("--url", metavar="URL", help="Address of the server.")] = (
        "http://127.0.0.1:8470"
    ),
    store: StoreOption = None,
) -> None:
    """Print a one-time link to sign in as admin. It ends after ten minutes."""
    carry_out(lambda: _link(settings_of(ctx, store), address))


async def _link(settings: Settings, address: str) -> int:
    from outlast.http.auth import SIGN_IN_S

    async with _auth(settings) as auth:
        text, _ = await auth.create("sign-in", login_name() or "admin", "admin", expires_s=SIGN_IN_S)
    typer.echo(f"{address.rstrip('/')}/sign-in#{text}")
    return SOUND
