"""Where in the user's code something happened: the file and the line.

To remember a place costs two attributes of a frame; the line is looked up only if somebody wants to know.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from types import CodeType, FrameType
from typing import TypeAlias

Where: TypeAlias = tuple[CodeType, int]
"""A code object and the offset of an instruction in it."""

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
    """A file as people are told of it."""
    try:
        below = os.path.relpath(file)
    except (OSError, ValueError):  # another drive, or the current folder is gone
        return file
    return file if below.startswith(os.pardir) or file.startswith("<") else below


def user_place() -> Where | None:
    """The innermost line of the user's own code that is being executed; else the innermost of an installed library."""
    installed: Where | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        kind = kind_of_file(frame.f_code.co_filename)
        if kind == "user":
            return frame.f_code, frame.f_lasti
        if kind == "installed" and installed is None:
            installed = frame.f_code, frame.f_lasti
        frame = frame.f_back
    return installed


@lru_cache(2000)
def kind_of_file(file: str) -> str:
    """Whose code a file holds: "own" (Outlast's), "standard" (Python's), "installed" (a library's), or "user"."""
    path = os.path.abspath(file)
    if path.startswith(_OWN):
        return "own"
    if any(name in path for name in _INSTALLED):
        return "installed"
    return "standard" if file.startswith("<frozen") or path.startswith(_STANDARD) else "user"
