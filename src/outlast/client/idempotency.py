"""Whether two starts were given the same parameters, however these were written."""

from __future__ import annotations

import inspect

import msgspec
from msgspec import Raw

from outlast.errors import NotStorable
from outlast.history.events import Value
from outlast.store import Blobs
from outlast.values.arguments import Arguments
from outlast.values.codec import fetched


async def same_arguments(one: Value, other: Value, arguments: Arguments, blobs: Blobs) -> bool:
    """Whether a function with these `arguments` is told the same by both: the order in which the keys of an object stand
    means nothing, and what equals a default may be left to it."""
    if bytes(one) == bytes(other):
        return True  # large ones, too: their references name them by their contents
    return _ordered(await fetched(one, blobs), arguments) == _ordered(await fetched(other, blobs), arguments)


def _ordered(params: Value, arguments: Arguments) -> dict[str, bytes]:
    """Each parameter as JSON with its keys in order, those that were left to their defaults included."""
    told = msgspec.json.decode(params, type=dict[str, Raw] | None) or {}
    given = _defaults(arguments) | told
    return {name: msgspec.json.encode(msgspec.json.decode(raw), order="sorted") for name, raw in given.items()}


def _defaults(arguments: Arguments) -> dict[str, Raw]:
    found: dict[str, Raw] = {}
    for name, parameter in arguments.signature.parameters.items():
        if parameter.default is not inspect.Parameter.empty:
            try:
                found[name] = arguments.codec(name).encode(parameter.default, name)
            except NotStorable:
                continue  # then nobody has given it either
    return found
