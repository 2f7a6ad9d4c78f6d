"""The contract of a shape: how the values of one annotation are laid out in JSON.

`lower` turns a value into a tree that msgspec writes as JSON, `lift` turns the tree that was read back into the value.
Implementations: `leaves`, `standard`, `members`, `containers`, `records`, `declared`, `models`, `unions`, `selfdescribing`;
`annotations` chooses among them.

A part that is not plain JSON says what it is in an object with the key "$", so a stored value without that key reads without
looking at its parts: if its shapes are `native`, msgspec reads it by itself, and that is the quick way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, NoReturn

from outlast.values.secret_patterns import masked

MARK: Final = "$"
"""The key of an object that says what it is. A user's own dict with this key is stored as a list of pairs."""

DEEPEST: Final = 128
"""How many containers may lie in one another: what is written here must be readable from any depth of stack."""

_TOO_DEEP: Final = (
    f"nested more than {DEEPEST} levels deep, which cannot be stored; flatten it, or store its parts by key"
)
_CYCLE: Final = "it contains itself, which cannot be stored; refer to the part by a name or a number instead"
_SHOWN = 60


class CodecError(Exception):
    """Why a part cannot be stored or read. On its way out every container adds its step of the path."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self._steps: list[str] = []
        self._holders: list[int] = []

    def within(self, step: str, holder: object = None) -> CodecError:
        """The same, seen from the container `holder` whose part at `step` has the snag."""
        self._steps.append(step)
        self._holders.append(id(holder))
        return self

    def told(self, where: str) -> str:
        """The path from `where` to the part, and the reason."""
        steps, reason = self._steps[::-1], self.reason
        if reason is _TOO_DEEP:
            again = self._first_repeated()
            steps, reason = (steps[:again], _CYCLE) if again else (steps[:3], f"[…]: {reason}")
        end = "" if reason.startswith("[…]") else ": "
        return f"{where}{''.join(steps)}{end}{reason}"

    def _first_repeated(self) -> int:
        """After how many steps a container is met that was met before; 0 if there is none."""
        seen: set[int] = set()
        for place, holder in enumerate(reversed(self._holders)):
            if holder in seen:
                return place
            seen.add(holder)
        return 0


class TypeCodec:
    """How values of one annotation are stored."""

    kind: str = "any"
    """What it is in JSON: null, bool, int, float, text, list, dict, or any."""
    classes: tuple[type, ...] = ()
    """The exact classes of the values it takes."""
    tags: frozenset[str] = frozenset()
    """What its own objects may say under "$"."""
    native: bool = True
    """Whether msgspec, given the annotation, reads what `lower` writes whenever no "$" is in it."""
    textual: bool = False
    """Whether what it lowers to can be a key of a JSON object."""
    keeps_text: bool = False
    """Whether every text is stored, and read, as itself, though not every value is a text."""

    def lower(self, value: Any, depth: int, /) -> Any:
        """The tree of a value that lies in `depth` containers; `CodecError` if it cannot be stored."""
        raise NotImplementedError

    def lift(self, tree: Any, /) -> Any:
        """The value of a tree; `CodecError` if it does not fit."""
        raise NotImplementedError

    def may_be(self, _: Any, /) -> bool:
        """Whether a tree does not say of itself that it is something else."""
        return True

    def passes(self, _: Collection[Any], /) -> bool:
        """Whether all of them surely lower to themselves: a look at many that is quicker than many looks."""
        return False

    def parts(self) -> Iterable[TypeCodec]:
        """The shapes of what lies inside."""
        return ()


def is_native(shape: TypeCodec) -> bool:
    """Whether it and all it is made of are native; shapes may contain themselves."""
    seen: set[int] = set()
    waiting = [shape]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        if not each.native:
            return False
        seen.add(id(each))
        waiting.extend(each.parts())
    return True


def check_depth(depth: int, holder: object) -> None:
    """Refuse a container that lies too deep, before a stack overflows."""
    if depth >= DEEPEST:
        raise CodecError(_TOO_DEEP).within("", holder)


def misfit(expected: str, tree: Any) -> NoReturn:
    """What was read is not what the annotation says."""
    raise CodecError(f"{expected} is expected, and {shown(tree)} is stored")


def key_step(key: object) -> str:
    """The step of a path to the part of a dict under `key`."""
    text = shown(key)
    if type(key) is str and "'" not in key and '"' not in key:
        text = text.replace("'", '"')
    return f"[{text}]"


def shown(value: object) -> str:
    """A value in few characters, for a message. It never fails and never shows a secret."""
    try:
        text = masked(repr(value))  # before it is cut: a part of a secret is not recognised
    except Exception:  # a user's repr may do anything
        text = f"<{type(value).__qualname__}>"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
