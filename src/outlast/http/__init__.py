"""The HTTP server: an API over an engine, its security, and the process that serves it.

`operations` holds the table of operations, from which routes, validation and the OpenAPI document follow; `api` fills it.
`app` makes an ASGI application of an engine, `server` runs one, `recovery` is what happens before it is ready. Streams and
the page are mounted beside the API; they find the engine and the authentication in `ServerState`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.http.app import asgi as asgi
    from outlast.http.state import ServerState as ServerState

_MODULES = {"ServerState": "outlast.http.state", "asgi": "outlast.http.app"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'outlast.http' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found
