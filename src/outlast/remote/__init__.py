"""A client of a server: the verbs of the engine over HTTP.

`connection` sends requests, repeats those that may be repeated, and raises the errors that the server names. `decode` makes
the engine's types from the views of the API. `engine` is the engine itself, `views` the reports that the server composes,
`credentials` where tokens are kept. Only this package imports httpx, when a connection is opened.

Promises:

R1  A verb of a remote engine has the signature, the result and the errors of the engine's verb, or is refused by name.
R2  Values are exact: integers of any size, decimals, NaN.
R3  A request is repeated only if it was not carried out, or if carrying it out again has no further effect.
R4  `watch` yields each event once and in order, also after the connection or the server was lost.
R5  A token is sent to the server it was given for, and to no other: redirects are not followed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.remote.opening import connect as connect

_MODULES = {"connect": "outlast.remote.opening"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'outlast.remote' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found
