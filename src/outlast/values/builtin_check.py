"""Check with a pickler that all parts of a value are exactly of builtin classes.

The pickled bytes are discarded and never read (R3). The pickler goes through lists, dicts, tuples and sets at the speed of C
and calls back for every part whose class is not itself builtin. This module is imported at first use.
"""

from __future__ import annotations

import pickle
from typing import Any, NoReturn


class _Nowhere:
    """A file that discards what a pickler writes."""

    write = staticmethod(len)


class _Asking(pickle.Pickler):
    def reducer_override(self, part: Any) -> NoReturn:
        """Called for each object except None, True, False and exact instances of int, str, list, dict and similar
        classes."""
        raise TypeError(f"a {type(part).__qualname__} is not of a builtin class")


_NOWHERE = _Nowhere()


def require_builtin(value: Any) -> None:
    """Raise an exception if a part of the value is of another class."""
    pickler = _Asking(_NOWHERE)
    pickler.fast = True  # no memo of the objects is needed
    pickler.dump(value)
