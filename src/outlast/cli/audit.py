"""`outlast audit`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from outlast.cli.console import notice, show_view
from outlast.cli.entrypoint import SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import Form, FormOption
from outlast.compose import open_settled
from outlast.errors import NotSetUp
from outlast.settings import Settings
from outlast.views.times import parse_time
from outlast.views.types import AuditListView


@command
async def audit(
    settings: Settings,
    who: Annotated[str | None, typer.Option("--who", metavar="NAME", help="Requests of users with this name.")] = None,
    action: Annotated[
        list[str] | None, typer.Option("--action", metavar="NAME", help="Requests of this operation; can be repeated.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="ID", help="Requests about this run or token.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Requests since this time: 2h, 7d …", metavar="WHEN")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="Maximum number of entries.")] = 50,
    output: FormOption = Form.TEXT,
) -> int:
    """Show what was changed through the server: who, what, from where, result.

    \b
    outlast audit --since 7d --who ines
    outlast audit --action cancel_run -o json
    """
    given = {"by": who or "", "action": tuple(action or ()), "subject": subject or ""}
    view, now = await (_asked if settings.url else _read)(settings, given, since, limit)
    show_view(view, output, now=now)
    if output is Form.TEXT and not view.entries:
        notice("no request matches")
    if view.next and output is Form.TEXT:
        notice("there are more: use --limit")
    return SOUND


async def _asked(settings: Settings, given: dict[str, Any], since: str | None, limit: int) -> tuple[AuditListView, int]:
    """The entries from a server."""
    from outlast.remote.engine import RemoteEngine

    async with opened(settings) as engine:
        assert isinstance(engine, RemoteEngine)
        now = await engine.diagnostics.now()
        return await engine.audit(limit, since=parse_time(since, now) if since else None, **given), now


async def _read(settings: Settings, given: dict[str, Any], since: str | None, limit: int) -> tuple[AuditListView, int]:
    """The entries in the store."""
    try:
        from outlast.http.audit import Audit, AuditFilter
        from outlast.views.server import audit_view
    except ImportError as error:
        raise NotSetUp(f"the server needs more packages: pip install 'outlast[server]' ({error})") from error
    store = open_settled(settings, readonly=True)
    try:
        now = await store.now()
        wanted = AuditFilter(
            by=given["by"],
            actions=given["action"],
            subject=given["subject"],
            since=parse_time(since, now) if since else 0,
        )
        found, next = await Audit(store).find(wanted, limit=limit)
    finally:
        await store.close()
    return AuditListView(entries=tuple(map(audit_view, found)), next=next or None), now
