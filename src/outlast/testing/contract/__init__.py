"""The store contract as a pytest suite: whoever passes it is a store.

Subclass `StoreContract` in a test module and say how a store is opened:

    class TestMyStore(StoreContract):
        async def open_store(self, where: Path) -> Store:
            return MyStore(where / "runs")

`where` is a folder of the test's own. Two calls with the same `where` open two doors to the same data, as two processes
would; a new `where` is empty. The doors are closed when the test is over. Every test cites the promise of `outlast.store`
(S1 to S10) that it protects; a store that has no blobs, or that is tried in a second configuration, may subclass the parts.

The suite hands the store records it composed by itself. It never decodes an event and never asks the ledger, so it says
what a store does and nothing else. It owns no clock: time passes by `Store.skew`.
"""

import pytest

pytest.register_assert_rewrite(
    *(
        f"{__name__}.{part}"
        for part in (
            "blobs",
            "catalog",
            "claims",
            "documents",
            "fencing",
            "journal",
            "leases",
            "lines",
            "samples",
            "search",
            "wakeups",
            "wholeness",
        )
    )
)

from outlast.testing.contract.blobs import BlobsContract  # noqa: E402
from outlast.testing.contract.catalog import CatalogContract  # noqa: E402
from outlast.testing.contract.claims import ClaimsContract  # noqa: E402
from outlast.testing.contract.documents import DocumentsContract  # noqa: E402
from outlast.testing.contract.doors import Contract, Doors, with_doors  # noqa: E402
from outlast.testing.contract.journal import JournalContract  # noqa: E402
from outlast.testing.contract.lines import LinesContract  # noqa: E402
from outlast.testing.contract.wakeups import WakeupsContract  # noqa: E402

__all__ = [
    "BlobsContract",
    "CatalogContract",
    "ClaimsContract",
    "Contract",
    "DocumentsContract",
    "Doors",
    "JournalContract",
    "LinesContract",
    "StoreContract",
    "WakeupsContract",
    "with_doors",
]


class StoreContract(
    JournalContract,
    CatalogContract,
    ClaimsContract,
    WakeupsContract,
    BlobsContract,
    LinesContract,
    DocumentsContract,
):
    """What `outlast.store.Store` promises."""
