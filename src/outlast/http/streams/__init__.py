"""Live streams: what happens to runs, sent to clients as it is appended.

- `feed` follows the runs that clients of this process follow, once for each run.
- `session` is what one client follows. It pulls: nothing is queued for a client, so a client that stops reading costs no
  memory and delays nobody; when it reads again, it continues from the log.
- `routes` has the two transports: server-sent events and WebSocket.

What holds here:

L1  A client receives every event after its cursor exactly once and in the order of the log, on every branch.
L2  A cursor is the number of the last event received of each run. It means the same on every server and after a restart.
L3  After the events that are there comes `backfill_complete`, with the open questions and a recoverable failure.
L4  A credential that is revoked or expires ends its streams within `CHECK_S` seconds.
"""

from outlast.http.streams.routes import routes

__all__ = ["routes"]
