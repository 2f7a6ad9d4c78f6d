"""`outlast doctor`: what is the matter with runs, and putting it right."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from outlast.cli.code_import import load_here
from outlast.cli.console import notice, screen, write_json
from outlast.cli.dry_run import said
from outlast.cli.entrypoint import SOUND, VIOLATED, carry_out
from outlast.cli.options import AppOption, Form, FormOption, StoreOption, settings_of
from outlast.cli.progress import Ticker
from outlast.cli.texts import COLOURS, counted, plain
from outlast.client import Diagnosis, Engine, Finding
from outlast.compose import open_desk
from outlast.errors import InvalidInput, NotFound, OutlastError
from outlast.history.ids import RunId
from outlast.ledger.verification import STRANGE
from outlast.lifecycle.status import RunStatus, parse_status
from outlast.settings import Settings

_STYLES = {"consistent": "green", "repairable": "yellow", "reported": "bold red"}


class Visit(msgspec.Struct):
    """What the doctor found, planned and did about one run."""

    diagnosis: Diagnosis
    planned: list[tuple[str, list[str]]] = []
    repaired: list[Finding] = []
    after: Diagnosis | None = None

    @property
    def is_well(self) -> bool:
        return self.now.is_sound

    @property
    def now(self) -> Diagnosis:
        """How the run stands at the end of the visit."""
        return self.after or self.diagnosis


def doctor(
    ctx: typer.Context,
    runs: Annotated[list[str] | None, typer.Argument(help="Runs: ids or beginnings of them.", metavar="RUN")] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Every run, those that are over too.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Repair what can be repaired without losing anything.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --fix: only show what would be appended.")] = False,
    blobs: Annotated[
        bool, typer.Option("--blobs/--no-blobs", help="Whether to hold the content of blobs against their hashes.")
    ] = True,
    app: AppOption = None,
    store: StoreOption = None,
    output: FormOption = Form.TEXT,
) -> None:
    """Say what is the matter with runs: which state they are in, what proves it,
    what caused it, and what is safe to do.

    Without a run, all unfinished ones are looked at. Nothing is changed unless
    --fix says so, and even then nothing is deleted: what cannot be built upon
    stays on its branch.

    \b
    [dim]outlast doctor
    outlast doctor 01a1e436-2c39
    outlast doctor 01a1e436-2c39 --fix --dry-run
    outlast doctor --all --fix[/dim]
    """

    def begin() -> Coroutine[Any, Any, int]:
        if runs and everything:
            raise InvalidInput("name the runs to look at, or say --all")
        if dry_run and not fix:
            raise InvalidInput("--dry-run shows what --fix would do: say both")
        settings = settings_of(ctx, store)
        load_here(app or (), settings)
        return _visits(settings, runs or [], everything, (fix, dry_run, blobs), output)

    carry_out(begin)


async def _visits(
    settings: Settings, names: list[str], everything: bool, wishes: tuple[bool, bool, bool], form: Form
) -> int:
    fix, dry_run, _ = wishes
    is_changing = fix and not dry_run
    async with open_desk(settings, readonly=not is_changing) as desk:
        wanted = [await desk.find(name) for name in names]
        console, shapes, ill, seen = screen(), list[Any](), 0, 0
        async for run in _runs(desk, wanted, everything):
            visit = await _visited(desk, run, *wishes)
            if visit is None:
                continue
            seen, ill = seen + 1, ill + (not visit.is_well)
            if form is Form.JSON:
                shapes.append(_shape(visit))
            elif wanted or not visit.diagnosis.is_sound:
                _show(console, visit)
    if form is Form.JSON:
        write_json({"runs": shapes, "seen": seen, "ill": ill}, pretty=True)
    elif not wanted:
        what = "run" if everything else "unfinished run"
        notice(f"{counted(seen, what)} looked at, {ill or 'none'} with something to be done")
    return VIOLATED if ill else SOUND


async def _visited(desk: Engine, run: RunId, fix: bool, dry_run: bool, blobs: bool) -> Visit | None:
    try:
        visit = Visit(await desk.diagnose(run, blobs=blobs))
    except NotFound:
        return None  # removed since it was listed
    except (OutlastError, *STRANGE) as error:  # the others are looked at all the same
        finding = Finding(code="G3", standing="reported", sentence=f"the run cannot be looked at: {error}")
        return Visit(Diagnosis(run, "unreadable", (finding,)))
    if fix and dry_run:
        for finding in visit.diagnosis.remedies[:1]:
            events = await desk.diagnostics.preview_recovery(run, finding)
            visit.planned.append((finding.code, [said(event) for event in events]))
    elif fix and visit.diagnosis.remedies:
        visit.repaired = await desk.recover(run)
        visit.after = await desk.diagnose(run, blobs=blobs)
    return visit


async def _runs(desk: Engine, wanted: list[RunId], everything: bool) -> AsyncIterator[RunId]:
    if wanted:
        for run in wanted:
            yield run
        return
    ticker, done = Ticker(), 0
    try:
        async for run in desk.diagnostics.run_ids(unfinished=not everything):
            ticker.show(f"looking at run {done + 1}: {run}")
            done += 1
            yield run
    finally:
        ticker.clear()


def _shape(visit: Visit) -> dict[str, Any]:
    return {
        "run": visit.diagnosis.run,
        "status": visit.diagnosis.status,
        "sound": visit.is_well,
        "held": visit.now.held or None,
        "findings": [_finding_shape(each) for each in visit.diagnosis.findings],
        "planned": [{"code": code, "events": events} for code, events in visit.planned],
        "repaired": [each.code for each in visit.repaired],
        "after": [_finding_shape(each) for each in visit.after.findings] if visit.after else None,
    }


def _finding_shape(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "standing": finding.standing,
        "sentence": finding.sentence,
        "events": finding.events,
        "cause": finding.cause,
        "actions": finding.actions,
    }


def _show(console: Console, visit: Visit) -> None:
    found = visit.diagnosis
    style = COLOURS.get(parse_status(found.status), "") if found.status in tuple(RunStatus) else ""
    verdict = (
        "nothing is the matter"
        if found.is_sound
        else counted(sum(f.standing != "consistent" for f in found.findings), "finding")
    )
    console.print(Text.assemble((found.run, "bold cyan"), "  ", (found.status, style), f"  {verdict}"), soft_wrap=True)
    for finding in found.findings:
        _show_finding(console, finding)
    for code, events in visit.planned:
        console.print(Text(f"  --fix would take the run over and append for {code}:", style="bold"), soft_wrap=True)
        for event in events:
            console.print(Text(f"    {plain(event)}"), soft_wrap=True)
    for finding in visit.repaired:
        console.print(Text(f"  repaired {finding.code}: {plain(finding.sentence)}", style="bold green"), soft_wrap=True)
    if visit.after is not None and not visit.after.is_sound:
        console.print(Text("  what remains:", style="bold"), soft_wrap=True)
        for finding in visit.after.findings:
            if finding.standing != "consistent":
                _show_finding(console, finding)


def _show_finding(console: Console, finding: Finding) -> None:
    head = Text.assemble("  ", (f"{finding.code:<4}", _STYLES[finding.standing]), plain(finding.sentence))
    console.print(head, soft_wrap=True)
    proofs = (
        f"event {finding.events[0]}" if len(finding.events) == 1 else f"events {', '.join(map(str, finding.events))}"
    )
    if finding.events:
        console.print(Text(f"        proved by {proofs}", style="dim"), soft_wrap=True)
    if finding.cause and finding.standing != "consistent":
        console.print(Text(f"        likely because {finding.cause}", style="dim"), soft_wrap=True)
    for action in finding.actions:
        console.print(Text(f"        → {plain(action)}"), soft_wrap=True)
