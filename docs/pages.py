"""Pages that are made from the product itself, when the site is built, so that they cannot drift from it.

A page says `<!-- made: commands -->`, and what `commands()` returns takes the place of that line. mkdocs calls
`on_page_markdown` for every page, and `on_post_build` when all are there: a page may load nothing from another host.

`make pages` runs this file, which writes `reference/errors.md`: readers of the repository look up codes there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

WIDTH = 80
"""So many characters of a command's help fit beside the contents of a page."""
MADE = re.compile(r"^<!-- made: (\w+) -->$", re.MULTILINE)
FOREIGN = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b[^>]*\brel=["']?(?!canonical|edit)[^>]*\bhref=["']?(?:https?:)?//"""
    r"""|@import\s+url\(["']?(?:https?:)?//"""
)
"""What a browser would fetch from another host by itself; a link that a reader may follow is none of that."""

SETTINGS = {
    "store": "Where the runs are kept.",
    "blobs": "Where large values are kept; beside the store, or in its database, if it is empty.",
    "apps": "The modules and files that hold workflows. A worker imports them.",
    "claim": "Seconds until another worker takes over from one that went silent.",
    "concurrency": "How many runs one process advances at once.",
    "threads": "How many nodes that are plain functions run at once.",
    "processes": 'How many helper processes there are for nodes with `run_in="process"`; 0 is one for each core.',
    "durability": "`full`: the disk has confirmed what was appended. `relaxed`: a power cut may cost the last moments.",
    "on_restart": "`resume`: interrupted runs go on. `hold`: they wait until they are told to.",
    "unawaited": "`fail`: a run that ends with calls it never awaited fails. `warn`: it completes, with a warning.",
    "capture_stdout": "Keep what nodes print, like what they log.",
    "grace": "Seconds that nodes have to reach a checkpoint or their end when their run is paused.",
    "queues": "The queues whose runs a worker executes; all if it is empty. An empty name: runs without a queue.",
    "queue_limits": "How many runs of a queue are executed at once, by all workers together. Give all workers the same.",
    "dask": 'The Dask cluster for nodes with `run_in="dask"`: its scheduler, or `local` for one that is brought up here.',
    "url": "The server that commands use instead of the store. The flag is `--server`.",
    "profile": "The profile that names a server and its token, for commands.",
}

EVENTS = {
    "The run": {
        "RunCreated": "The first fact: which workflow, with which parameters, under which key, of which parent.",
        "RunStarted": "Its code was set going; `resumed`, that a person had it go on.",
        "RunPaused": "It stopped where it stood and can be resumed.",
        "RunTakenOver": "Another worker owns it from here on, under a greater epoch.",
        "PauseRequested": "Somebody asked for a pause.",
        "CancelRequested": "Somebody cancelled it; `force`, without its clean-up.",
        "RequestRefused": "The request at event `request` is not obeyed; `code` and `reason` say why.",
        "RunCompleted": "It returned this.",
        "RunFailed": "It raised this; `held`, that it waits for a person's decision.",
        "CleanupStarted": "Its code was cancelled here and cleans up until `due`; `extended`, that it was given more time.",
        "RunCancelled": "It was cancelled; `cleanup` and `error` say what became of its clean-up.",
        "RunContinued": "It ended, and its successor goes on.",
        "RunRecovered": "An inconsistent state was found, and what was done about it.",
        "VersionChanged": "Other code replayed its log without a difference and goes on with it.",
        "AttributesSet": "The code set these search attributes; one that is null was removed.",
    },
    "Branches": {
        "BranchOpened": "From here on another line of history counts, which shares its parent's up to the cutoff.",
        "JumpRequested": "Somebody asked to go back to an event.",
        "Recalled": (
            "In a fork: the following events were copied from that event, and date from `time`; `run` is the run whose id "
            "the code had then."
        ),
    },
    "Steps and nodes": {
        "StepStarted": "A named group of nodes begins.",
        "StepCompleted": "It has ended.",
        "NodeScheduled": "A node is to be done; `cause` says why, `attempt` which try it is.",
        "NodeStarted": "An attempt begins, with these inputs.",
        "NodeCheckpointed": "It has come so far.",
        "NodeCompleted": "It returned this, and is never done again on this branch.",
        "NodeFailed": "An attempt failed: for good, unless `retry_at` says when the next one is due.",
        "NodesRetired": "These nodes are over, and nothing will ask for them again.",
        "NodeSkipped": "A node is not done.",
        "CompensationStarted": "A node is being undone.",
        "NodeCompensated": "It was undone.",
        "CompensationFailed": "It could not be undone.",
        "GraphExtended": "Nodes were added to a graph.",
    },
    "People and time": {
        "InteractionRequested": "A person is asked.",
        "InteractionAnswered": "A person has answered.",
        "InteractionWithdrawn": "The question is no longer asked.",
        "SignalAwaited": "The run waits for a signal of this name.",
        "SignalReceived": "A signal came.",
        "SignalConsumed": "The run has used it.",
        "TimerSet": "The run waits for a time.",
        "TimerFired": "The time has come.",
        "TimerCancelled": "Nobody waits for it any more.",
        "GuestEventsRead": "The run has taken in what others wrote, up to this event.",
        "DecisionRecorded": "What code found out that it could not find out again: who won a race.",
    },
    "The outside": {
        "TriggerRegistered": "A source of inputs is listened to.",
        "TriggerInputReceived": "It gave an input.",
        "TriggerCursorAdvanced": "It has been read so far.",
        "OutboxEnqueued": "A message is to go out.",
        "OutboxSent": "It went out.",
        "ChildStarted": "A child run was asked for.",
        "ChildEnded": "It has ended so.",
    },
}


# --- tables


def table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [titles, ("---" for _ in titles), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def settings() -> str:
    """Every setting: its default, what is allowed, what it does."""
    from outlast.settings import ALLOWED, KEYS, PREFIX, Settings

    defaults = {field.name: field.default for field in msgspec.structs.fields(Settings)}
    rows = []
    for key in KEYS:
        default = ".outlast/runs.db" if key == "store" else _plain(defaults[key])
        rows.append((f"`{key}`", f"`{PREFIX}{key.upper()}`", default, ALLOWED[key], SETTINGS[key]))
    return table(("setting", "variable", "default", "allowed", "what it does"), rows)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, int | float):
        return f"`{value:g}`"
    return f"`{value}`" if value else "-"


def exit_codes() -> str:
    from outlast.cli.entrypoint import EXIT_CODES

    return table(("code", "meaning"), ((str(code), meaning) for code, meaning in EXIT_CODES.items()))


ERRORS = """\
# Errors

<!-- `make pages` writes this file from the table in src/outlast/errors.py. -->

Each error of Outlast has a code that never changes. `error.code` gives it, a log stores it as the `kind` of a failure, and
the command line prints that with `-o json`. An error of any other class is stored as `module:Name`. The last column is the
[exit code](exit-codes.md) of a command that ends with the error. For a damaged log it is 1, or 3 if the run is unknown.

## Errors that Outlast raises

{raised}

## Codes of failures in a log

A log also holds these codes, for failures that Outlast records without raising an error.

{recorded}

## Classes

::: outlast.errors
    options:
      show_root_heading: false
      heading_level: 3
      filters: ["!^_", "!^code$", "!^remedy$", "!^[A-Z_]+$", "!^Code$", "!^code_of$"]
"""


def errors() -> str:
    """Every code: its class, its cause, its remedy."""
    from outlast.cli.entrypoint import code_of
    from outlast.errors import CODES, Damaged

    raised, recorded = [], []
    for code, each in CODES.items():
        if each.error is None:
            recorded.append((f"`{code}`", each.cause, each.remedy))
        else:
            ends = "1, or 3" if issubclass(each.error, Damaged) else str(code_of(each.error.__new__(each.error)))
            raised.append((f"`{code}`", f"`{each.error.__name__}`", each.cause, each.remedy, ends))
    return ERRORS.format(
        raised=table(("code", "class", "cause", "what to do", "exit"), raised),
        recorded=table(("code", "cause", "what to do"), recorded),
    )


def events() -> str:
    """Every kind of fact, with its fields."""
    return "\n\n".join(f"## {group}\n\n{_kinds(kinds)}" for group, kinds in EVENTS.items())


def _kinds(kinds: dict[str, str]) -> str:
    from outlast.history.events import EVENT_TYPES

    rows = []
    for name, meaning in kinds.items():
        fields = [field.name for field in msgspec.structs.fields(EVENT_TYPES[name]) if field.name != "more"]
        rows.append((f"`{name}`", meaning, ", ".join(f"`{field}`" for field in fields)))
    return table(("event", "it says", "fields"), rows)


# --- the command line


def commands() -> str:
    """What `outlast --help` and the help of every command say, as a reader sees it."""
    from typer.main import get_command

    from outlast.cli.app import app

    everything = _all(get_command(app), "outlast")
    return "\n\n".join(f"## {' '.join(words)}\n\n```text\n{_help(words[1:])}\n```" for words in everything)


def _all(command: Any, *words: str) -> Iterator[tuple[str, ...]]:
    yield words
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from _all(command.get_command(None, name), *words, name)


def _help(words: tuple[str, ...]) -> str:
    from typer.testing import CliRunner

    from outlast.cli.app import app

    surroundings = {"COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
    said = CliRunner().invoke(app, [*words, "--help"], prog_name="outlast", env=surroundings)
    if said.exit_code:
        raise SystemExit(f"outlast {' '.join(words)} --help ended with {said.exit_code}")
    return "\n".join(line.rstrip() for line in said.output.strip("\n").splitlines()).strip("\n")


MAKERS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "settings": settings,
    "exit_codes": exit_codes,
    "events": events,
}


# --- what mkdocs calls


def on_config(config: Any, **_: Any) -> None:
    """All decisions are in the contents, whoever adds one."""
    found = sorted(Path(config["docs_dir"], "decisions").glob("*.md"))
    config["nav"].append({"Decisions": [f"decisions/{page.name}" for page in found]})


def on_page_markdown(markdown: str, **_: Any) -> str:
    return MADE.sub(lambda found: MAKERS[found[1]](), markdown)


def on_post_build(config: Any, **_: Any) -> None:
    site = Path(config["site_dir"])
    foreign = [str(page) for page in site.rglob("*.html") if FOREIGN.search(page.read_text())]
    if foreign:
        raise SystemExit(f"these pages load something from another host: {', '.join(foreign)}")
    (site / ".gitignore").write_text("*\n")  # what is made is not kept


if __name__ == "__main__":
    Path(__file__).with_name("reference").joinpath("errors.md").write_text(errors())
