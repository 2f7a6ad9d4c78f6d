"""Output of commands: text with colours on a terminal, JSON and ids as bytes on stdout, messages on stderr.

Rich is imported only by the displays that redraw the screen."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from outlast.cli.streams import own
from outlast.lifecycle.timeline.phrases import plain
from outlast.views.lines import Line, fitted, line
from outlast.views.types import View

if TYPE_CHECKING:
    from rich.console import Console, Group

UNLIMITED = 100_000
"""The width of a pipe: lines are not cut."""
WIDE = 120
"""The least width at which ids and digests are shown whole."""
_CODES = {"bold": "1", "dim": "2"} | {
    name: str(code) for code, name in enumerate(("red", "green", "yellow", "blue", "magenta", "cyan"), 31)
}


def width() -> int:
    """The columns of stdout: of the terminal, or of the variable COLUMNS, else unlimited."""
    is_measured = own().isatty() or os.environ.get("COLUMNS")
    return shutil.get_terminal_size().columns if is_measured else UNLIMITED


def show_lines(lines: Iterable[Line]) -> None:
    """Print lines, fitted to the screen; with colours on a terminal."""
    out, columns = own(), width()
    paint = has_colours(out)
    for each in fitted(lines, columns):
        out.write(painted(each) if paint else each.text)
        out.write("\n")


def has_colours(out: TextIO) -> bool:
    """Whether the output is a terminal with colours. NO_COLOR and FORCE_COLOR override it."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (out.isatty() and os.environ.get("TERM") not in ("dumb", "unknown"))


def painted(whole: Line) -> str:
    """The line with escape codes for colours."""
    parts = [(text, ";".join(_CODES[word] for word in style.split())) for text, style in whole.spans]
    return "".join(f"\x1b[{codes}m{text}\x1b[0m" if codes else text for text, codes in parts)


def show_view(view: View, output: str, *, now: int = 0, ids: Iterable[str] = (), **options: Any) -> None:
    """Print a view in an output format: text, json or ids."""
    if output == "json":
        write_json(view, pretty=True)
    elif output == "ids":
        write_bytes("".join(f"{each}\n" for each in ids).encode())
    else:
        from outlast.views.text import lines_of

        show_lines(lines_of(view, now, **options))


def show_reply(view: View, output: str, run: str, *text: str, style: str = "bold") -> None:
    """Print the result of a request in an output format. The text is a message, on stderr."""
    if output == "json":
        write_json(view)
    elif output == "ids":
        write_bytes(f"{run}\n".encode())
    else:
        notice(*text, style=style)


def show_text(text: str) -> None:
    """Print all lines of a text with their indentation. Control characters in it are escaped."""
    show_lines(line(plain(each.expandtabs(), keep_indent=True), fit="copy") for each in text.split("\n"))


def notice(*lines: str, style: str = "dim") -> None:
    """Print a message on stderr; the first line in the given style."""
    paint = has_colours(sys.stderr)
    for each in "\n".join(filter(None, lines)).split("\n"):
        shown = line((plain(each, keep_indent=True), style))
        print(painted(shown) if paint else shown.text, file=sys.stderr)
        style = "dim"


def write_json(value: Any, *, pretty: bool = False) -> None:
    """Print one JSON value as UTF-8, on one line unless `pretty`."""
    encoded = msgspec.json.format(msgspec.json.encode(value), indent=2 if pretty else -1)
    write_bytes(encoded + b"\n")


def write_bytes(data: bytes) -> None:
    out = own()
    out.flush()
    out.buffer.write(data)
    out.buffer.flush()


# --- with Rich


def screen(*, stderr: bool = False) -> Console:
    """A terminal that Rich redraws."""
    from rich.console import Console

    return Console(
        file=None if stderr else own(), stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=False
    )


def drawn(lines: Iterable[Line], console: Console) -> Group:
    """The lines for Rich."""
    from rich.console import Group
    from rich.text import Text

    return Group(*(Text.assemble(*each.spans) for each in fitted(lines, console.width)))
