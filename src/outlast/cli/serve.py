"""`outlast serve` and `outlast dev`: the HTTP server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from outlast.cli.code_import import load_here, log_info
from outlast.cli.console import notice
from outlast.cli.engine_log import LogFormatOption, QuietOption, VerboseOption, log_to_stderr
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.options import QueueLimitOption, StoreOption, WorkerQueuesOption, queue_flags, store_settings_of
from outlast.errors import InvalidInput, NotSetUp
from outlast.settings import Settings, with_flags

if TYPE_CHECKING:
    from outlast.http.auth import Auth
    from outlast.http.state import ServerState

RELOAD_POLL_S = 0.5
SUPERVISED = "OUTLAST_SUPERVISED"
"""Set for the server that `outlast dev` and `--reload` start."""
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
    queue: WorkerQueuesOption = None,
    queue_limit: QueueLimitOption = None,
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
    outlast serve flows.py
    outlast serve flows --store postgresql://db/outlast --host 0.0.0.0
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
    flags = {"on_restart": on_restart, **queue_flags(queue, queue_limit)}
    carry_out(lambda: _begin(ctx, store, tuple(apps or ()), flags, given))


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
    outlast dev flows.py
    """
    named = store if store is not None else ctx.obj.get("store")
    more = [*(["--store", named] if named else []), "--port", str(port), "--insecure-local"]
    raise typer.Exit(_supervised(apps or (), ["serve", *(apps or ()), *more]))


def _begin(
    ctx: typer.Context, store: str | None, apps: tuple[str, ...], flags: dict[str, Any], given: dict[str, Any]
) -> Coroutine[Any, Any, int]:
    if given["insecure_local"] and given["host"] not in ("127.0.0.1", "::1", "localhost"):
        raise InvalidInput(f"--insecure-local serves on loopback only, not on {given['host']}")
    if "*" in given["trusted_proxies"]:
        raise InvalidInput("--trust-proxy names a proxy or a network: with * any client could name its address itself")
    settings = store_settings_of(ctx, "a server has a store: use it where the store is", store=store)
    load_here(list(apps), settings)
    return _serve(msgspec.structs.replace(with_flags(settings, flags), apps=()), given)


async def _serve(settings: Settings, given: dict[str, Any]) -> int:
    try:
        from outlast.cli.page_build import build_page
        from outlast.http.auth import OidcOptions
        from outlast.http.server import Options
        from outlast.http.server import serve as serve_http
    except ImportError as error:
        raise NotSetUp(f"{INSTALL} ({error})") from error
    log_info()
    _end_with_supervisor()
    log_to_stderr(verbose=given.pop("verbose"), quiet=given.pop("quiet"), log_format=given.pop("log_format"))
    oidc = given.pop("oidc")
    options = Options(**given, oidc=OidcOptions(**oidc) if oidc else None)

    building: list[asyncio.Task[None]] = []

    async def announce(state: ServerState, address: str) -> None:
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
    """On the terminal only: readers of a log must not be able to sign in."""
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
            environment = {**os.environ, SUPERVISED: "1"}
            child = subprocess.Popen([sys.executable, "-m", "outlast", *words], stdin=subprocess.PIPE, env=environment)
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


def _end_with_supervisor() -> None:
    """End this server when the process that supervises it ends, also by SIGKILL: then the pipe on stdin closes."""
    if os.environ.pop(SUPERVISED, ""):

        def wait() -> None:
            os.read(0, 1)  # nothing is ever written: it returns at the end of the pipe
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=wait, name="outlast-supervisor", daemon=True).start()


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
