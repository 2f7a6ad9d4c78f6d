"""Secrets by reference: what is stored says where a secret is found, never what it is (R4).

A `Secret` names a value and the source that knows it; `reveal()` asks the source, in the attempt that needs it. What it
answers is a `Revealed`: a text like any other to the code that uses it, and refused wherever a value is about to be stored.
Text made from it is an ordinary text; so what is about to be stored, or said, is searched for the value (`disguises`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeAlias, final

from msgspec import Struct

from outlast.errors import InvalidInput
from outlast.values import secret_patterns

Source: TypeAlias = Callable[[str], str | None]
"""Answers the value of a secret by its name, or None if there is none."""

_sources: dict[str, Source] = {"env": os.environ.get}


@final
class Revealed(str):
    """The value of a secret, for the attempt that asked. It is not to be stored, and `repr` does not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<the value of a secret>"


@final
class Secret(Struct, frozen=True):
    """A reference to a secret: `Secret("API_KEY")` is the environment's, `Secret("key", source="vault")` a vault's."""

    name: str
    source: str = "env"

    def reveal(self) -> Revealed:
        """The value, from its source, now. `InvalidInput` if the source is not registered or does not know the name."""
        source = _sources.get(self.source)
        if source is None:
            known = ", ".join(sorted(_sources))
            raise InvalidInput(
                f"secret {self.name!r}: there is no source {self.source!r} (there is {known}); "
                "call register_secret_source in every process that runs nodes"
            )
        value = source(self.name)
        if value is None:
            raise InvalidInput(f"secret {self.name!r} is not in source {self.source!r}; set it where this node runs")
        secret_patterns.remember(str(value))
        return Revealed(value)

    def __repr__(self) -> str:
        where = "" if self.source == "env" else f", source={self.source!r}"
        return f"Secret({self.name!r}{where})"


def register_secret_source(name: str, source: Source) -> None:
    """Let secrets of this source be resolved by `source`, in this process, from now on."""
    if not name or not callable(source):
        raise InvalidInput("a source of secrets needs a name and a function from a secret's name to its value")
    _sources[name] = source


def has_revealed(tree: Any) -> bool:
    """Whether some text in a tree of lists and dicts is, as a whole, a value this process has revealed; in workflow code,
    one that this code has revealed."""
    if not secret_patterns.known:
        return False
    if isinstance(tree, str):
        own = secret_patterns.revealed_here.get()
        return tree in (secret_patterns.known if own is None else own)
    if isinstance(tree, dict):
        return any(has_revealed(part) for part in tree.values())
    return isinstance(tree, list) and any(has_revealed(part) for part in tree)
