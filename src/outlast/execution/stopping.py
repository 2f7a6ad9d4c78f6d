"""How a plain node is told to end where it stands."""


class Stopped(BaseException):
    """Raised at a checkpoint in a plain node that is to end there: its run is being paused, or nobody waits for it any more.

    What it kept is durable, and its next attempt finds it. It is no `Exception`, so that `except Exception` lets it pass;
    `finally` and `with` do their work as always."""
