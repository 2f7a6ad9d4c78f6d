"""Workers, the sweeper, tokens, sessions, and the document of this API."""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace
from starlette.responses import Response

from outlast.http import requests as r
from outlast.http.api.runs import given
from outlast.http.audit import AuditFilter
from outlast.http.auth import COOKIE, SESSION_S, principal_of
from outlast.http.cursors import after_of, cursor_of
from outlast.http.openapi import document
from outlast.http.operations import OPERATIONS, Call, Reply, must_be_same_origin, operation
from outlast.http.permissions import GRANTED
from outlast.views import build
from outlast.views import server as s
from outlast.views import types as v


@operation("GET", "/workers", "workers:read", tag="service")
async def list_workers(call: Call) -> v.WorkerListView:
    """List the workers of the store and the runs they hold."""
    return v.WorkerListView(workers=tuple(map(build.worker_view, await call.engine.workers())))


@operation("POST", "/sweep", "sweeper:run", tag="service", example={"dry_run": True})
async def sweep(call: Call, body: r.SweepBody) -> v.SweepReportView:
    """Find runs that should continue and that nobody advances, and hand them to the next worker."""
    call.note = "dry run" if body.dry_run else ""
    report = await call.engine.sweep(dry_run=body.dry_run, stale_after=body.stale_after)
    return build.sweep_view(report, dry_run=body.dry_run)


@operation("GET", "/audit", "audit:list", tag="service")
async def list_audit(call: Call, query: r.ListAudit) -> v.AuditListView:
    """List who changed what, from where, with which result, the newest first.

    A page may have fewer entries than `limit` although `next` is set: the search of one request is bounded.
    """
    wanted = AuditFilter(
        by=query.by,
        actions=query.action,
        subject=query.subject,
        address=query.address,
        is_refused=given(query.refused),
        **{name: at for name in ("since", "until") if (at := getattr(query, name)) is not UNSET},
    )
    found, next = await call.state.audit.find(wanted, after=after_of(wanted, query.cursor), limit=query.limit)
    return v.AuditListView(entries=tuple(map(s.audit_view, found)), next=cursor_of(wanted, next) or None)


# --- tokens


@operation("GET", "/tokens", "tokens:manage", tag="tokens")
async def list_tokens(call: Call) -> v.TokenListView:
    """List all tokens, without their secrets."""
    return v.TokenListView(tokens=tuple(map(s.token_view, await call.state.auth.list("token"))))


@operation(
    "POST",
    "/tokens",
    "tokens:manage",
    tag="tokens",
    statuses=(201,),
    example={"name": "deploy", "role": "operator", "expires_in": 2592000},
)
async def create_token(call: Call, body: r.TokenBody) -> v.NewTokenView:
    """Create a token. Its secret is in this answer and nowhere else."""
    expires = None if body.expires_in is UNSET else body.expires_in
    secret, made = await call.state.auth.create("token", body.name, body.role, expires_s=expires, by=call.by)
    call.subject, call.note = made.id, f"{made.name}, {made.role}"
    return v.NewTokenView(token=s.token_view(made), secret=secret)


@operation("DELETE", "/tokens/{id}", "tokens:manage", tag="tokens", statuses=(204,), refuses=(404,))
async def revoke_token(call: Call) -> None:
    """Revoke a token. It ends on every server within seconds."""
    await call.state.auth.revoke("token", call.path["id"])


# --- sessions


@operation("GET", "/session", "workflows:read", tag="session")
async def get_session(call: Call) -> s.SessionView:
    """Get who sends this request, and what they may do."""
    who = call.principal
    return s.SessionView(
        by=who.by,
        role=who.role,
        kind=who.kind,
        permissions=tuple(sorted(GRANTED[who.role])),
        expires=s.time_of(who.expires),
    )


@operation(
    "POST",
    "/session",
    None,
    tag="session",
    statuses=(201,),
    refuses=(401, 403),
    example={"code": "oli_0123456789abcdef_…"},
)
async def sign_in(call: Call, body: r.SignInBody) -> Reply[s.SessionView]:
    """Sign in with a one-time code: it is spent by this, and the answer sets the session cookie."""
    must_be_same_origin(call.request, is_required=False)
    text, made = await call.state.auth.sign_in(body.code)
    call.principal = principal_of("session", made)
    secure = "; Secure" if call.request.url.scheme == "https" else ""
    path = call.request.scope.get("root_path") or "/"
    cookie = f"{COOKIE}={text}; HttpOnly; SameSite=Strict; Path={path}; Max-Age={int(SESSION_S)}{secure}"
    return Reply(replace(await get_session(call), by=made.name), 201, {"Set-Cookie": cookie})


@operation("DELETE", "/session", "workflows:read", tag="session", statuses=(204,))
async def sign_out(call: Call) -> Reply[None]:
    """Sign out: the session ends."""
    if call.principal.kind == "session":
        await call.state.auth.revoke("session", call.principal.id)
    path = call.request.scope.get("root_path") or "/"
    return Reply(None, 204, {"Set-Cookie": f"{COOKIE}=; HttpOnly; SameSite=Strict; Path={path}; Max-Age=0"})


@operation("GET", "/openapi.json", None, tag="service", answers=dict, id="get_openapi")
async def get_openapi(call: Call) -> Response:
    """Get the OpenAPI document of this server."""
    root = call.request.scope.get("root_path", "")
    return Response(document(OPERATIONS, server=root or "/"), media_type="application/json")
