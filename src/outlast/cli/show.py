"""`outlast show`: one run as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec
import typer
from msgspec import Raw
from rich.console import Console
from rich.text import Text

from outlast.cli.console import columns, screen, show_columns, show_line, show_text, write_bytes, write_json
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.explain import way_on
from outlast.cli.files import File, files_of
from outlast.cli.options import Reply, ReplyOption, RunArgument, StoreOption, settings_of
from outlast.cli.outcome import where_of
from outlast.cli.questions import how_to_answer
from outlast.cli.run_json import detail_shape
from outlast.cli.run_view import Tally, Work, status_in_words, tally_of
from outlast.cli.texts import COLOURS, LONGEST_WAIT, counted, cropped, plain, wait_in_words
from outlast.cli.times import local, span, took, until
from outlast.client import RunSummary
from outlast.compose import open_desk
from outlast.history.events import Failure, Value
from outlast.lifecycle.state import NodeState, NodeStatus
from outlast.lifecycle.status import TERMINAL, RunStatus
from outlast.lifecycle.summary import summarise
from outlast.lifecycle.timeline.phrases import failure, plain_numbers
from outlast.settings import Settings

SHOWN = 50
"""Nodes, steps, children and waits that are shown, unless all are asked for."""
LONGEST = 200
"""More of a value or a message is shown with --verbose only."""
_NODE_STYLES = {NodeStatus.COMPLETED: "green", NodeStatus.FAILED: "red", NodeStatus.STARTED: "bold blue"}


def show(
    ctx: typer.Context,
    run: RunArgument,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Whole values, messages and recorded tracebacks; all nodes.")
    ] = False,
    store: StoreOption = None,
    output: ReplyOption = Reply.TEXT,
) -> None:
    """Show a run: how it stands, its nodes, what it waits for, why it failed.

    With -o ids only its whole id.

    \b
    [dim]outlast show 01a1e436-2c39
    outlast show 01a1e436-2c39 --verbose
    outlast show 01a1e436-2c39 -o json | jq '.nodes[] | select(.status == "failed")'[/dim]
    """
    carry_out(lambda: _show(settings_of(ctx, store), run, verbose, output))


async def _show(settings: Settings, name: str, verbose: bool, reply: Reply) -> int:
    async with open_desk(settings, readonly=True) as desk:
        run = await desk.find(name)
        if reply is Reply.IDS:
            write_bytes(f"{run}\n".encode())
            return SOUND
        tally = await tally_of(desk, run)
        files = await files_of(desk, run)
        now = await desk.diagnostics.now()
        summary, where = summarise(run, tally.state), where_of(settings)
        again = await way_on(desk, run, where) if summary.recoverable and not summary.held else ""
    if reply is Reply.JSON:
        write_json(detail_shape(summary, tally, files), pretty=True)
    else:
        Page(screen(), tally, summary, now, files, verbose=verbose, where=where, way_on=again).show()
    return SOUND


class Page:
    """A run on the screen, part by part."""

    def __init__(
        self,
        console: Console,
        tally: Tally,
        summary: RunSummary,
        now: int,
        files: Sequence[File] = (),
        *,
        verbose: bool,
        where: str,
        way_on: str = "",
    ) -> None:
        self._console = console
        self._tally, self._summary, self._now = tally, summary, now
        self._files = files
        self._verbose = verbose
        self._where, self._way_on = where, way_on
        self._longest = 100_000 if verbose else LONGEST

    def show(self) -> None:
        show_columns(self._console, [(Text(name, style="cyan"), text) for name, text in self._facts()])
        self._show_part("nodes", list(self._nodes()))
        self._show_part("steps", [(Text(plain(name)), Text("done" if done else "")) for name, done in self._steps()])
        self._show_part("children", list(self._children()))
        self._show_part("files", list(self._written()))
        self._show_part("waits for", list(self._waits()))
        self._show_long_questions()
        self._show_error()

    def _show_part(self, title: str, rows: Sequence[tuple[Text, ...]]) -> None:
        if not rows:
            return
        shown = rows if self._verbose else rows[-SHOWN:]
        hidden = len(rows) - len(shown)
        more = f" (the last {SHOWN} of {len(rows)}; all of them with --verbose)" if hidden else ""
        self._console.print(Text.assemble("\n", (title, "bold"), more))
        for line in columns(shown):
            show_line(self._console, Text("  ").append_text(line))

    # --- the run

    def _facts(self) -> Iterator[tuple[str, Text]]:
        summary, created, outline = self._summary, self._tally.created, self._tally.state.outline
        yield "run", Text(plain(summary.run))
        entry = f"  ({plain(created.entry)})" if created and created.entry else ""
        yield "workflow", Text.assemble(plain(summary.workflow), (entry, "dim"))
        yield "status", Text.assemble((summary.status, COLOURS[summary.status]), self._why())
        if summary.title:
            yield "title", Text(cropped(summary.title))
        if summary.tags:
            yield "tags", Text(cropped(" ".join(f"#{tag}" for tag in summary.tags)))
        if summary.parent:
            yield "parent", Text(plain(summary.parent))
        if outline.successor:
            yield "goes on as", Text(plain(outline.successor))
        yield "created", Text(f"{local(summary.created, full=True)}, {span(self._now - summary.created)} ago")
        last = f"{local(summary.updated, full=True)}, after {span(summary.updated - summary.created)}"
        yield ("ended" if summary.status in TERMINAL else "last event"), Text(last)
        if created is not None:
            yield "params", Text(self._value(created.params) or "none")
        if summary.status is RunStatus.COMPLETED:
            yield "result", Text(self._value(outline.output) or "null")

    def _why(self) -> str:
        summary = self._summary
        again = f": outlast resume {summary.run}{self._where}"
        if summary.held:
            return f", held: a person has to decide; to go on{again}"
        if summary.recoverable:
            return f", recoverable; to go on: {self._way_on}" if self._way_on else ", recoverable"
        reason = f", {cropped(summary.reason)}" if summary.reason else ""
        if summary.status is RunStatus.PAUSED:
            return f"{reason}; to go on{again}"
        return reason if summary.status is RunStatus.CANCELLED else ""

    # --- its parts

    def _nodes(self) -> Iterator[tuple[Text, ...]]:
        for name, node in self._tally.state.nodes.items():
            work = self._tally.work.get(name) or Work()
            tries = counted(node.attempt, "attempt") if node.attempt > 1 else ""
            yield (
                Text(plain(name), style="cyan"),
                self._status(node),
                Text(tries),
                Text(self._time(node, work)),
                Text(self._outcome(node)),
            )
        if self._tally.retired:
            yield (
                Text("…"),
                Text("completed"),
                Text(""),
                Text(""),
                Text(f"{self._tally.retired} more, done and retired"),
            )

    def _status(self, node: NodeState) -> Text:
        if node.status is NodeStatus.STARTED and self._is_still:
            return Text("stopped")
        return Text(status_in_words(node.status), style=_NODE_STYLES.get(node.status, ""))

    @property
    def _is_still(self) -> bool:
        """Whether nothing of it can be running, whatever was begun."""
        return self._summary.status is RunStatus.PAUSED

    def _time(self, node: NodeState, work: Work) -> str:
        if node.status is NodeStatus.STARTED:
            return "" if self._is_still else f"for {span(self._now - work.began)}"
        if work.retry_at is not None:
            return f"again {until(work.retry_at, self._now)}"
        return took(work.ms) if work.ms else ""

    def _outcome(self, node: NodeState) -> str:
        if node.error is not None and node.status is not NodeStatus.COMPLETED:
            return self._failure(node.error)
        return self._value(node.output)

    def _steps(self) -> list[tuple[str, bool]]:
        return list(self._tally.state.steps.items())

    def _children(self) -> Iterator[tuple[Text, ...]]:
        for name, child in self._tally.state.children.items():
            error = self._failure(child.error) if child.error else ""
            workflow = cropped(self._tally.workflows.get(name, ""), 40)
            yield Text(plain(name), style="cyan"), Text(workflow), Text(child.status or "not over"), Text(error)

    def _written(self) -> Iterator[tuple[Text, ...]]:
        for file in self._files:
            yield Text(plain(file.path), style="cyan"), Text("" if file.complete else "partial"), Text(plain(file.node))

    def _waits(self) -> Iterator[tuple[Text, ...]]:
        is_only = len(self._tally.questions) == 1
        for wait in self._tally.state.waits.values():
            how = ""
            if wait.kind == "interaction":
                how = how_to_answer(self._tally.run, wait, self._where, is_only=is_only)
            yield Text(wait_in_words(wait, self._now)), Text(how, style="dim")

    def _show_long_questions(self) -> None:
        """All of each question that is cut above: nobody is to decide about a part of it."""
        for question in self._tally.questions:
            if question.text != cropped(question.text, LONGEST_WAIT):
                self._console.print(Text.assemble("\n", ("question", "bold"), f" {plain(question.id)}"))
                show_text(self._console, "  " + question.text.replace("\n", "\n  "))

    def _show_error(self) -> None:
        outline = self._tally.state.outline
        if outline.error is None:
            return
        node = f" in node {plain(outline.failed_node)}" if outline.failed_node else ""
        self._console.print(Text.assemble("\n", ("error", "bold red"), node))
        show_text(self._console, f"  {self._failure(outline.error)}")
        if self._verbose and outline.error.trace:
            show_text(self._console, "\n  " + outline.error.trace.rstrip().replace("\n", "\n  "))
        elif outline.error.trace:
            self._console.print(Text("  its traceback is shown with --verbose", style="dim"))

    # --- values

    def _failure(self, error: Failure) -> str:
        return cropped(failure(error), self._longest)

    def _value(self, raw: Value) -> str:
        text = bytes(plain_numbers(Raw(memoryview(raw)[: 4 * self._longest]))).decode(errors="replace")
        if text == "null":
            return ""
        if text.startswith('{"$":"blob"'):
            return f"{msgspec.json.decode(raw)['size']} bytes in a blob"
        return cropped(text, self._longest)
