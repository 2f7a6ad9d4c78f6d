"""The exception that ends a plain node at a checkpoint."""


class Stopped(BaseException):
    """Raised by `checkpoint` in a plain node that must end there: its run is being paused, or the attempt was
    abandoned.

    The checkpoint is durable, and the next attempt reads it. It derives from `BaseException`, so that `except
    Exception` does not catch it; `finally` and `with` blocks run as usual."""
