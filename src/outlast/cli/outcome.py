"""The end of a run, printed in an output format, and its exit code."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.cli.console import notice, show_text, write_bytes, write_json
from outlast.cli.entrypoint import INTERRUPTED, RUN_CANCELLED, RUN_FAILED, RUN_HELD, RUN_PAUSED, SOUND
from outlast.cli.options import Output
from outlast.errors import RunDiverged
from outlast.history.events import NULL, Failure, Value
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.timeline.phrases import counted, cropped, failure, plain_numbers
from outlast.settings import Settings
from outlast.values.codec import codec_for
from outlast.views.build import result_view
from outlast.views.files import file_lines
from outlast.views.run_view import Tally
from outlast.views.types import FileView

if TYPE_CHECKING:
    from outlast.functions.decorators import Workflow


_CODES = {
    RunStatus.COMPLETED: SOUND,
    RunStatus.FAILED: RUN_FAILED,
    RunStatus.CANCELLED: RUN_CANCELLED,
    RunStatus.PAUSED: RUN_PAUSED,
}
"""With another status the run continues on another worker."""


class Outcome(msgspec.Struct, frozen=True):
    """A run that ended, is held or is paused, with its result as JSON and its files. `resume` is the command that continues
    a run that failed and is recoverable."""

    tally: Tally
    result: Value = NULL
    files: tuple[FileView, ...] = ()
    resume: str = ""

    @property
    def code(self) -> int:
        state = self.tally.state
        return RUN_HELD if state.outline.held else _CODES.get(state.status, INTERRUPTED)


def outcome(tally: Tally, workflow: Workflow[..., Any] | None, value: Any) -> Outcome:
    """The outcome of a run that returned `value`. Without the workflow, the value carries its own types."""
    codec = workflow._arguments.returns if workflow is not None else codec_for(Any)
    return Outcome(tally, plain_numbers(codec.encode(value, "result")))


def report(ended: Outcome, output: Output, where: str) -> int:
    """Print it; returns the exit code."""
    if output is Output.JSON:
        write_json(result_view(ended.tally, ended.result, ended.files))
        return ended.code
    if output is Output.IDS:
        write_bytes(f"{ended.tally.run}\n".encode())
    elif ended.code == SOUND:
        show_result(ended.result)
    text, style = _text(ended, where)
    notice(*text, style=style)
    return ended.code


def show_result(raw: Value) -> None:
    """Print a result: a string as text, another value as JSON, and nothing for None."""
    value = msgspec.json.decode(raw)
    if value is not None:
        show_text(value if isinstance(value, str) else msgspec.json.format(bytes(raw), indent=2).decode())


def where_of(settings: Settings) -> str:
    """The --server, --profile or --store option for a command that is shown to the user, if this command has one."""
    for key, flag in (("url", "--server"), ("profile", "--profile"), ("store", "--store")):
        if settings.sources[key].startswith("flag"):
            return f" {flag} {shlex.quote(getattr(settings, key))}"
    return ""


def how_to_decide(error: Failure | None, run: RunId, where: str) -> str:
    """The commands that continue or end a held run."""
    if error is not None and error.kind == RunDiverged.code:
        return (
            f"Show what changed in the code: outlast versions diff {run}{where}\n"
            f"Then restore the old code and resume: outlast resume {run}{where}; "
            f"or move the run to the current code: outlast migrate {run}{where}; "
            f"or cancel it: outlast cancel {run}{where}"
        )
    return f"Resume it: outlast resume {run}{where}; or cancel it: outlast cancel {run}{where}"


def _text(ended: Outcome, where: str) -> tuple[tuple[str, ...], str]:
    """The message about the end of a run, and its style."""
    run, outline = ended.tally.run, ended.tally.state.outline
    node = f" in node {cropped(outline.failed_node, 100)}" if outline.failed_node else ""
    error = failure(outline.error) if outline.error else outline.reason
    details = f"Show details: outlast show {run}{where} --verbose"
    if ended.code == RUN_HELD:
        held = f"run {run} is held{node}: a person must decide. {error}"
        return (held, how_to_decide(outline.error, run, where), details), "bold yellow"
    if ended.code == RUN_FAILED:
        resume = f"Remove the cause, then resume it: {ended.resume}" if ended.resume else ""
        return (f"run {run} failed{node}: {error}", resume, details), "red"
    if ended.code == RUN_CANCELLED:
        return (f"run {run} was cancelled{f': {outline.reason}' if outline.reason else ''}",), "yellow"
    if ended.code == RUN_PAUSED:
        paused = f"run {run} is paused{f' ({outline.reason})' if outline.reason else ''}"
        return (paused, *file_lines(ended.files), how_to_decide(None, run, where)), "bold yellow"
    if ended.code == INTERRUPTED:
        return (f"run {run} continues on another worker; follow it: outlast events {run} --follow{where}",), "dim"
    return (f"run {run} completed, {counted(outline.done_nodes, 'node')} done",), "dim"
