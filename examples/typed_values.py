"""Values keep their types: a dataclass with dates and enums that a node returned comes back as that dataclass.

Parameters and results are stored by their annotations: dataclasses, msgspec and pydantic models, dates and times,
enums, sets, bytes, paths. A value that cannot be stored is refused with the path to the unsupported part.
"""

import enum
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

import outlast as ol


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass(frozen=True)
class Booking:
    guest: str
    night: date
    size: Size
    extras: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Bill:
    booking: Booking
    due: date
    total: Decimal


@ol.node
async def reserve(guest: str, night: date, size: Size) -> Booking:
    return Booking(guest, night, size, frozenset({"breakfast", "bicycle"}))


@ol.node
async def charge(booking: Booking) -> Bill:
    price = Decimal("80.50") if booking.size is Size.SMALL else Decimal("120.00")
    return Bill(booking, booking.night + timedelta(days=14), price + 10 * len(booking.extras))


@ol.workflow
async def stay(guest: str, night: date, size: Size = Size.SMALL) -> Bill:
    booking = await reserve(guest, night, size)
    return await charge(booking)


if __name__ == "__main__":
    bill = ol.run(stay, "Grace", date(2030, 5, 1), size=Size.LARGE)
    print(f"{bill.booking.guest} owes {bill.total} by {bill.due:%d %B %Y}")
