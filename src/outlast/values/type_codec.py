"""The interface of a type codec: how the values of one annotation are stored as JSON.

`encode` turns a value into a tree that msgspec writes as JSON; `decode` turns the decoded tree into the value. The modules
`scalars`, `stdlib_types`, `enums`, `containers`, `records`, `pydantic_models`, `unions` and `untyped`
implement it; `annotations` chooses among them.

A part that is not plain JSON is stored as an object with the key "$", which names its type. A stored value without that key
needs no look at its parts: if its codecs are `native`, msgspec decodes it directly, which is fast.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, NoReturn

from outlast.values.secret_patterns import masked

MARK: Final = "$"
"""The key that marks an object as a tagged value. A user's own dict with this key is stored as a list of pairs."""

DEEPEST: Final = 128
"""How many containers may be nested: a stored value must be readable from any depth of the stack."""

_TOO_DEEP: Final = (
    f"nested more than {DEEPEST} levels deep, so it cannot be stored; flatten it, or store its parts by key"
)
_CYCLE: Final = "it contains itself, so it cannot be stored; refer to the part by a name or a number instead"
_SHOWN = 60


class CodecError(Exception):
    """The reason why a part cannot be stored or read. Each container adds its step of the path."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self._steps: list[str] = []
        self._holders: list[int] = []

    def within(self, step: str, holder: object = None) -> CodecError:
        """The same error, with the step to the part of the container `holder` that caused it."""
        self._steps.append(step)
        self._holders.append(id(holder))
        return self

    def message_from(self, where: str) -> str:
        """The path from `where` to the part, and the reason."""
        steps, reason = self._steps[::-1], self.reason
        if reason is _TOO_DEEP:
            again = self._first_repeated()
            steps, reason = (steps[:again], _CYCLE) if again else (steps[:3], f"[…]: {reason}")
        end = "" if reason.startswith("[…]") else ": "
        return f"{where}{''.join(steps)}{end}{reason}"

    def _first_repeated(self) -> int:
        """The number of steps after which a container appears for the second time; 0 if none does."""
        seen: set[int] = set()
        for place, holder in enumerate(reversed(self._holders)):
            if holder in seen:
                return place
            seen.add(holder)
        return 0


class TypeCodec:
    """How the values of one annotation are stored."""

    kind: str = "any"
    """Its type in JSON: null, bool, int, float, text, list, dict, or any."""
    classes: tuple[type, ...] = ()
    """The exact classes of the values it accepts."""
    tags: frozenset[str] = frozenset()
    """The values of "$" in the objects it writes itself."""
    native: bool = True
    """Whether msgspec, given the annotation, decodes what `encode` writes if it contains no "$"."""
    textual: bool = False
    """Whether its trees can be keys of a JSON object."""
    keeps_text: bool = False
    """Whether every text is stored and read unchanged, though not every value is a text."""

    def encode(self, value: Any, depth: int, /) -> Any:
        """The tree of a value that is nested in `depth` containers; `CodecError` if it cannot be stored."""
        raise NotImplementedError

    def decode(self, tree: Any, /) -> Any:
        """The value of a tree; `CodecError` if the tree does not fit."""
        raise NotImplementedError

    def may_be(self, _: Any, /) -> bool:
        """Whether the tree can be of this type. False only if the tree shows that it is not."""
        return True

    def passes(self, _: Collection[Any], /) -> bool:
        """Whether all values certainly encode to themselves: one fast check of many values."""
        return False

    def parts(self) -> Iterable[TypeCodec]:
        """The codecs of its parts."""
        return ()


def is_native(shape: TypeCodec) -> bool:
    """Whether it and all its parts are native. Codecs may contain themselves."""
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
    """Refuse a container that is nested too deeply, before the stack overflows."""
    if depth >= DEEPEST:
        raise CodecError(_TOO_DEEP).within("", holder)


def misfit(expected: str, tree: Any) -> NoReturn:
    """Raise the error for a stored value that does not match the annotation."""
    raise CodecError(f"expected {expected}, but {shown(tree)} is stored")


def key_step(key: object) -> str:
    """The step of a path to the value under `key` in a dict."""
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
