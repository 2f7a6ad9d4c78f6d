"""Whether all parts of a value are exactly of builtin classes, found out by a pickler.

Nothing is ever read from what it writes (R3): it only goes through lists, dicts, tuples and sets at the speed of C and asks
about every part that is an instance of anything but a builtin class itself. This module is loaded when it is first needed.
"""

from __future__ import annotations

import pickle
from typing import Any, NoReturn


class _Nowhere:
    """The file of a pickler whose bytes nobody wants."""

    write = staticmethod(len)


class _Asking(pickle.Pickler):
    def reducer_override(self, part: Any) -> NoReturn:
        """Asked about each object but None, True, False and exact instances of int, str, list, dict and their like."""
        raise TypeError(f"a {type(part).__qualname__} is not of a builtin class")


_NOWHERE = _Nowhere()


def require_builtin(value: Any) -> None:
    """Raise something if a part of it is not."""
    pickler = _Asking(_NOWHERE)
    pickler.fast = True  # it need not remember what it has seen
    pickler.dump(value)
