"""Secrets by reference: a stored value says where a secret is found, never what it is (R4).

A `Secret` names a value and its source; `reveal()` asks the source, in the attempt that needs the value, and returns a
`Revealed`. That is an ordinary text for the code that uses it, but is refused where a value is stored. Text made from it is
an ordinary `str`; so values and log lines are searched for the revealed value (`secret_patterns`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeAlias, final

from msgspec import Struct

from outlast.errors import InvalidInput
from outlast.values import secret_patterns

Source: TypeAlias = Callable[[str], str | None]
"""Returns the value of a secret by its name, or None if it has no such secret."""

_sources: dict[str, Source] = {"env": os.environ.get}


@final
class Revealed(str):
    """The value of a secret, for the attempt that revealed it. It cannot be stored, and `repr` does not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<the value of a secret>"


@final
class Secret(Struct, frozen=True):
    """A reference to a secret: `Secret("API_KEY")` is an environment variable, `Secret("key", source="vault")` is in a
    vault."""

    name: str
    source: str = "env"

    def reveal(self) -> Revealed:
        """The value, from its source, now. `InvalidInput` if the source is not registered or does not have the name."""
        source = _sources.get(self.source)
        if source is None:
            known = ", ".join(sorted(_sources))
            raise InvalidInput(
                f"secret {self.name!r}: source {self.source!r} is not registered (registered: {known}); "
                "call register_secret_source in every process that executes nodes"
            )
        value = source(self.name)
        if value is None:
            raise InvalidInput(
                f"secret {self.name!r} is not in source {self.source!r}; set it in the process that executes this node"
            )
        secret_patterns.remember(str(value))
        return Revealed(value)

    def __repr__(self) -> str:
        where = "" if self.source == "env" else f", source={self.source!r}"
        return f"Secret({self.name!r}{where})"


def register_secret_source(name: str, source: Source) -> None:
    """Look up secrets of this source with the function `source`, in this process, from now on."""
    if not name or not callable(source):
        raise InvalidInput(
            "register_secret_source takes a name and a function that returns the value of a secret by its name"
        )
    _sources[name] = source


def has_revealed(tree: Any) -> bool:
    """Whether a text in a tree of lists and dicts equals a value revealed in this process; in workflow code, one that
    this code has revealed."""
    if not secret_patterns.known:
        return False
    if isinstance(tree, str):
        own = secret_patterns.revealed_here.get()
        return tree in (secret_patterns.known if own is None else own)
    if isinstance(tree, dict):
        return any(has_revealed(part) for part in tree.values())
    return isinstance(tree, list) and any(has_revealed(part) for part in tree)
