"""Compares the parameters of two starts by value, not by their stored form."""

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
    """Whether both are the same arguments for the function: the order of keys does not matter, and an argument equal
    to its default may be omitted."""
    if bytes(one) == bytes(other):
        return True  # also for blobs: a reference contains the hash of the content
    return _ordered(await fetched(one, blobs), arguments) == _ordered(await fetched(other, blobs), arguments)


def _ordered(params: Value, arguments: Arguments) -> dict[str, bytes]:
    """Each parameter as JSON with sorted keys, defaults included."""
    given = _defaults(arguments) | (msgspec.json.decode(params, type=dict[str, Raw] | None) or {})
    return {name: msgspec.json.encode(msgspec.json.decode(raw), order="sorted") for name, raw in given.items()}


def _defaults(arguments: Arguments) -> dict[str, Raw]:
    found: dict[str, Raw] = {}
    for name, parameter in arguments.signature.parameters.items():
        if parameter.default is not inspect.Parameter.empty:
            try:
                found[name] = arguments.codec(name).encode(parameter.default, name)
            except NotStorable:
                continue  # then no start has passed it either
    return found
