"""A node that fails is retried by the rules of its `retry` policy.

`retry` sets how often and how soon; `give_up_on` names exceptions that are not retried. `ol.context()` has the number
of the attempt; `ol.idempotency_key()` is the same for all attempts, so that services can detect repeated requests.
"""

import outlast as ol


class OutOfPaper(Exception):
    """Comes and goes."""


class NoSuchPrinter(Exception):
    """Stays."""


@ol.node(retry=ol.Retry(max_attempts=4, delay=0.05, backoff=2, give_up_on=NoSuchPrinter))
async def send_to_printer(printer: str, page: str) -> str:
    if printer != "hall":
        raise NoSuchPrinter(printer)
    if ol.context().attempt < 3:
        raise OutOfPaper(f"{printer}, attempt {ol.context().attempt}")
    return f"{page} lies in the {printer}"


@ol.workflow
async def print_page(page: str) -> str:
    try:
        return await send_to_printer("cellar", page)  # fails at once, for good
    except NoSuchPrinter as error:
        return f"no {error}, but {await send_to_printer('hall', page)}"  # the third attempt succeeds


if __name__ == "__main__":
    print(ol.run(print_page, "the timetable"))
