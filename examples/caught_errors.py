"""Exceptions keep their class: a workflow catches the exception that a node raised.

Ordinary Python therefore undoes earlier nodes: if the hotel is full, the flight is cancelled. It works the same after
a crash, when the exception is read from the log; its traceback is stored as text.
"""

import outlast as ol


class FullyBooked(Exception):
    pass


@ol.node
async def book_flight(to: str) -> str:
    return f"seat 12A to {to}"


@ol.node
async def book_hotel(city: str) -> str:
    if city == "Rome":
        raise FullyBooked(f"no room in {city}")
    return f"a room in {city}"


@ol.node
async def cancel_flight(seat: str) -> str:
    return f"{seat} given back"


@ol.workflow
async def trip(city: str) -> str:
    seat = await book_flight(city)
    try:
        room = await book_hotel(city)
    except FullyBooked as error:
        return f"{error}: {await cancel_flight(seat)}"
    return f"{seat}, {room}"


if __name__ == "__main__":
    print(ol.run(trip, "Paris"))
    print(ol.run(trip, "Rome"))
