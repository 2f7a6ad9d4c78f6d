"""How a run ended, told to people, programs and pipes, and as an exit code."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.cli.console import notice, show_text, write_bytes, write_json
from outlast.cli.entrypoint import INTERRUPTED, RUN_CANCELLED, RUN_FAILED, RUN_HELD, RUN_PAUSED, SOUND
from outlast.cli.options import Reply
from outlast.errors import RunDiverged
from outlast.history.events import NULL, Failure, Value
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.timeline.phrases import failure, plain_numbers
from outlast.settings import Settings
from outlast.views.build import result_view
from outlast.views.files import in_words
from outlast.views.run_view import Tally
from outlast.views.texts import counted, cropped
from outlast.views.types import FileView

if TYPE_CHECKING:
    from outlast.functions.decorators import Workflow


_CODES = {
    RunStatus.COMPLETED: SOUND,
    RunStatus.FAILED: RUN_FAILED,
    RunStatus.CANCELLED: RUN_CANCELLED,
    RunStatus.PAUSED: RUN_PAUSED,
}
"""A run in another status was left while it goes on elsewhere."""


class Outcome(msgspec.Struct, frozen=True):
    """A run that is over, held or paused, with the JSON of what it returned and the files it wrote."""

    tally: Tally
    result: Value = NULL
    files: tuple[FileView, ...] = ()
    way_on: str = ""
    """The command that resumes it, if it failed and is recoverable."""

    @property
    def code(self) -> int:
        outline = self.tally.state.outline
        if outline.held:
            return RUN_HELD
        return _CODES.get(self.tally.state.status, INTERRUPTED)


def outcome(tally: Tally, workflow: Workflow[..., Any], value: Any) -> Outcome:
    """How a run ended that returned `value`."""
    return Outcome(tally, plain_numbers(workflow._arguments.returns.encode(value, "result")))


def report(ended: Outcome, reply: Reply, where: str) -> int:
    """Tell it, and say with which code the command ends."""
    if reply is Reply.JSON:
        write_json(result_view(ended.tally, ended.result, ended.files))
    elif reply is Reply.IDS:
        write_bytes(f"{ended.tally.run}\n".encode())
    elif ended.code == SOUND:
        show_result(ended.result)
    if reply is not Reply.JSON:
        _remark(ended, where)
    return ended.code


def show_result(raw: Value) -> None:
    """A text as it is, everything else as JSON, nothing for nothing."""
    value = msgspec.json.decode(raw)
    if value is None:
        return
    show_text(value if isinstance(value, str) else msgspec.json.format(bytes(raw), indent=2).decode())


def where_of(settings: Settings) -> str:
    """What has to be added to a command that is told to people, so that it finds the same store."""
    return f" --store {shlex.quote(settings.store)}" if settings.sources["store"].startswith("flag") else ""


def way_out(error: Failure | None, run: RunId, where: str) -> str:
    """What a person can do about a run that is held."""
    if error is not None and error.kind == RunDiverged.code:
        return (
            f"See what has changed: outlast versions diff {run}{where}\n"
            f"Put code there that fits, and go on with it: outlast resume {run}{where}; "
            f"or move it to today's code: outlast migrate {run}{where}; or end it: outlast cancel {run}{where}"
        )
    return f"Go on with it: outlast resume {run}{where}; or end it: outlast cancel {run}{where}"


def _remark(ended: Outcome, where: str) -> None:
    run, outline = ended.tally.run, ended.tally.state.outline
    node = f" in node {cropped(outline.failed_node, 100)}" if outline.failed_node else ""
    error = failure(outline.error) if outline.error else outline.reason
    more = f"See what happened: outlast show {run}{where} --verbose"
    if outline.held:
        notice(
            f"run {run} is held{node}: a person has to decide. {error}",
            way_out(outline.error, run, where),
            more,
            style="bold yellow",
        )
    elif ended.code == RUN_FAILED:
        go_on = f"Go on with it, once the cause is gone: {ended.way_on}" if ended.way_on else ""
        notice(f"run {run} failed{node}: {error}", go_on, more, style="red")
    elif ended.code == RUN_CANCELLED:
        notice(f"run {run} was cancelled{f': {outline.reason}' if outline.reason else ''}", style="yellow")
    elif ended.code == RUN_PAUSED:
        why = f" ({outline.reason})" if outline.reason else ""
        again = f"Go on with it: outlast resume {run}{where}; or end it: outlast cancel {run}{where}"
        notice(f"run {run} is paused{why}", *in_words(ended.files), again, style="bold yellow")
    elif ended.code == INTERRUPTED:
        notice(f"run {run} goes on elsewhere; wait for it again: outlast resume {run}{where}")
    else:
        notice(f"run {run} completed, {counted(outline.done_nodes, 'node')} done")
