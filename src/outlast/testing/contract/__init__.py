"""The store contract as a pytest suite: a class that passes it is a store.

Subclass `StoreContract` in a test module and implement `open_store`:

    class TestMyStore(StoreContract):
        async def open_store(self, where: Path) -> Store:
            return MyStore(where / "runs")

`where` is a folder for one test. Two calls with the same `where` open two connections to the same data, as two processes
would. A new `where` has no data. The suite closes the connections after each test. `rewrite_version` writes another version
of the store format into the data. Every test cites the promise of `outlast.store` (S1 to S14) that it checks. A store in a
second configuration can subclass the parts.

The suite composes its own records. It does not decode events or use the ledger, so it tests only the store. It advances
time with `Store.skew`.
"""

from pkgutil import iter_modules

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{part.name}" for part in iter_modules(__path__)))

from outlast.testing.contract.attributes import AttributesContract as AttributesContract  # noqa: E402
from outlast.testing.contract.blobs import BlobsContract as BlobsContract  # noqa: E402
from outlast.testing.contract.catalog import CatalogContract as CatalogContract  # noqa: E402
from outlast.testing.contract.claims import ClaimsContract as ClaimsContract  # noqa: E402
from outlast.testing.contract.collection import CollectionContract as CollectionContract  # noqa: E402
from outlast.testing.contract.deletion import DeletionContract as DeletionContract  # noqa: E402
from outlast.testing.contract.documents import DocumentsContract as DocumentsContract  # noqa: E402
from outlast.testing.contract.doors import Contract as Contract  # noqa: E402
from outlast.testing.contract.doors import Doors as Doors  # noqa: E402
from outlast.testing.contract.journal import JournalContract as JournalContract  # noqa: E402
from outlast.testing.contract.lines import LinesContract as LinesContract  # noqa: E402
from outlast.testing.contract.queues import QueuesContract as QueuesContract  # noqa: E402
from outlast.testing.contract.slots import SlotsContract as SlotsContract  # noqa: E402
from outlast.testing.contract.versions import VersionsContract as VersionsContract  # noqa: E402
from outlast.testing.contract.wakeups import WakeupsContract as WakeupsContract  # noqa: E402


class StoreContract(
    JournalContract,
    CatalogContract,
    AttributesContract,
    ClaimsContract,
    QueuesContract,
    SlotsContract,
    WakeupsContract,
    DeletionContract,
    CollectionContract,
    BlobsContract,
    LinesContract,
    DocumentsContract,
    VersionsContract,
):
    """Tests all promises of `outlast.store.Store`."""
