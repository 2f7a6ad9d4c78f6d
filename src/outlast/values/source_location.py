"""The place in the user's code, as file and line.

Recording a place costs two attributes of a frame; the line is computed only for a message.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, TypeAlias

Where: TypeAlias = tuple[CodeType, int]
"""A code object and the offset of an instruction in it."""

LOOP = "run_until_blocked"
"""The function that runs the code of a workflow on its loop."""
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


def shown(where: Where | None) -> str:
    """`flows.py:12`: the file relative to the current folder if it lies below that, else its whole path."""
    if where is None:
        return "an unknown place"
    code, offset = where
    line = next((line for start, end, line in code.co_lines() if start <= offset < end and line), code.co_firstlineno)
    return f"{short(code.co_filename)}:{line}"


def short(file: str) -> str:
    """The path of a file for a message."""
    try:
        below = os.path.relpath(file)
    except (OSError, ValueError):  # another drive, or the current folder is gone
        return file
    return file if below.startswith(os.pardir) or file.startswith("<") else below


def user_call() -> tuple[Where | None, str]:
    """The innermost line of the user's code on the stack, and what it calls there: the name of a library, or the
    qualified name of a function of the standard library; empty if it calls Outlast. Without such a line: no place, and
    the outermost library."""
    called: FrameType | None = None
    for frame, kind in _frames(sys._getframe(1)):
        if kind == "user":
            return (frame.f_code, frame.f_lasti), _named(called)
        if kind != "own":
            called = frame
    return None, _named(called)


def _frames(frame: FrameType | None) -> Iterator[tuple[FrameType, str]]:
    """This frame and its callers, each with the kind of its file. The frames around the loop of a workflow belong to the
    program that runs the engine, which did not call the workflow's code."""
    while frame is not None:
        kind = kind_of_file(frame.f_code.co_filename)
        if kind == "own" and frame.f_code.co_name == LOOP:
            return
        yield frame, kind
        frame = frame.f_back


def _named(called: FrameType | None) -> str:
    if called is None:
        return ""
    library = str(called.f_globals.get("__name__", "")).partition(".")[0]
    is_standard = kind_of_file(called.f_code.co_filename) == "standard"
    return f"{library}.{called.f_code.co_qualname}" if is_standard else library


def place_in(coroutine: Any) -> Where | None:
    """The innermost line of the user's code where a suspended coroutine waits."""
    found: Where | None = None
    while coroutine is not None:
        frame = _first_of(coroutine, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None and kind_of_file(frame.f_code.co_filename) == "user":
            found = frame.f_code, frame.f_lasti
        coroutine = _first_of(coroutine, "cr_await", "gi_yieldfrom", "ag_await")
    return found


def _first_of(thing: Any, *names: str) -> Any:
    return next((found for name in names if (found := getattr(thing, name, None)) is not None), None)


def user_place(frame: FrameType | None = None) -> Where | None:
    """The innermost line of the user's code on the stack, from here or from that frame; else the innermost line of an
    installed library."""
    installed: Where | None = None
    for each, kind in _frames(frame or sys._getframe(1)):
        if kind == "user":
            return each.f_code, each.f_lasti
        if kind == "installed" and installed is None:
            installed = each.f_code, each.f_lasti
    return installed


@lru_cache(2000)
def kind_of_file(file: str) -> str:
    """The owner of the code in a file: "own" (Outlast), "standard" (Python), "installed" (a library), or "user"."""
    path = os.path.abspath(file)
    if path.startswith(_OWN):
        return "own"
    if any(name in path for name in _INSTALLED):
        return "installed"
    return "standard" if file.startswith("<frozen") or path.startswith(_STANDARD) else "user"
