"""Find the value of a secret in JSON that is about to be stored (R4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from outlast.values.secret_patterns import SecretPatterns, refused_in
from outlast.values.type_codec import MARK, key_step


def find_secret(body: bytes) -> str | None:
    """The path to a text that contains a value revealed in this process; None if there is none. In workflow code, only
    values that this code has revealed count."""
    found = refused_in(body)
    if not found:
        return None
    # A number may have the digits of a value: only texts are refused.
    return next((path for path, text in _texts(msgspec.json.decode(body), "") if _holds(text, found)), None)


def _holds(text: str, patterns: list[SecretPatterns]) -> bool:
    return any(form in text for each in patterns for form in (*each.plain, *each.base64))


def _texts(tree: Any, path: str) -> Iterator[tuple[str, str]]:
    """All texts with their paths. For a text in a key, the path is that of the dict. Keys come first."""
    if isinstance(tree, str):
        yield path, tree
    elif isinstance(tree, list):
        for place, each in enumerate(tree):
            yield from _texts(each, f"{path}[{place}]")
    elif isinstance(tree, dict) and MARK in tree and tree[MARK] != "dict":
        yield from _texts(tree.get("v"), path)
    elif isinstance(tree, dict):
        pairs = tree["v"] if MARK in tree else list(tree.items())
        for key, _ in pairs:
            yield from ((path, text) for _, text in _texts(key, path))
        for key, each in pairs:
            yield from _texts(each, path + key_step(key))
