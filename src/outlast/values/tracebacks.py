"""Tracebacks as text: the frames of the user's code, each once, those of the workflow before those of its node.

An error that is restored from the log has its recorded traceback as a note. If it fails the run too, the frames of that note
continue those of the workflow, so that one traceback leads from the workflow into the node.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from types import TracebackType
from typing import Any

REMOTE = "Traceback recorded by the attempt:"
"""The first line of such a note."""
_HEAD = "Traceback (most recent call last):\n"
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"
_OWN_FRAMES = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def trace_of(error: BaseException) -> str:
    """The traceback of an error and of those it came from, without the frames of this package of Outlast."""
    report = traceback.TracebackException.from_exception(error, compact=True)
    _leave_out_own(report)
    parts: list[str] = []
    each: traceback.TracebackException | None = report
    while each is not None:
        before, frames = _recorded(each)
        parts.append(_block(each, frames))
        link, each = (before, None) if before else _before(each)
        parts.append(link)
    return "".join(reversed(parts))


def folded(error: Exception) -> Exception:
    """An error of a run, without the frames between the run and the code that waits for it. If the program does not catch
    it, Python prints it without Outlast's later frames too, unless the program has its own `sys.excepthook`."""
    if not _is_of_run(error):
        return error
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_without_own_frames
    return error.with_traceback(None)


def _is_of_run(error: BaseException) -> bool:
    notes = getattr(error, "__notes__", None)
    return isinstance(notes, list) and any(isinstance(each, str) and each.startswith(REMOTE) for each in notes)


def _print_without_own_frames(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
    if not _is_of_run(error):
        sys.__excepthook__(kind, error, frames)
        return
    report = traceback.TracebackException(kind, error, frames, compact=True)
    _leave_out_own(report)
    print("".join(report.format()), end="", file=sys.stderr)


def _leave_out_own(report: traceback.TracebackException) -> None:
    """Drop the frames of this package, in the error and in its causes: they say nothing about the user's code."""
    seen: set[int] = set()
    left = [report]
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        each.stack = traceback.StackSummary.from_list(
            frame for frame in each.stack if not os.path.abspath(frame.filename).startswith(_OWN_FRAMES)
        )
        left += [other for other in (each.__cause__, each.__context__, *(each.exceptions or ())) if other is not None]


def _before(report: traceback.TracebackException) -> tuple[str, traceback.TracebackException | None]:
    if report.__cause__ is not None:
        return _CAUSE, report.__cause__
    if report.__context__ is not None and not report.__suppress_context__:
        return _CONTEXT, report.__context__
    return "", None


def _block(report: traceback.TracebackException, frames: str) -> str:
    if report.exceptions is not None:
        return "".join(report.format(chain=False))
    stack = "".join(report.stack.format()) + frames
    return (_HEAD if stack else "") + stack + "".join(report.format_exception_only())


def _recorded(report: traceback.TracebackException) -> tuple[str, str]:
    """The recorded causes and frames in the note of a restored error. The note is then removed."""
    notes: list[Any] = list(getattr(report, "__notes__", None) or ())
    note = next((each for each in notes if isinstance(each, str) and each.startswith(f"{REMOTE}\n")), None)
    if note is None or report.exceptions is not None:
        return "", ""
    text = note[len(REMOTE) + 1 :]
    before, head, rest = f"\n{text}".rpartition(f"\n{_HEAD}")
    found = re.match(r"(?:  .*\n)+", rest) if head else None
    if found is None and len(text.splitlines()) > 1:
        return "", ""
    notes.remove(note)
    setattr(report, "__notes__", notes or None)  # noqa: B010 - typeshed lacks it
    return before[1:] + "\n" if before.strip() else "", found[0] if found else ""
