"""A store on a server passes a sample of the contract in `make test`, and all of it in `make faults`. The code that it
shares with another store passes all of it there: objects on a server with objects in memory.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from support.sampling import share


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one of `parts` parts of the tests of a class, chosen by the seed."""
    parts: dict[type, int] = {}
    names: dict[type, list[str]] = defaultdict(list)
    for item in items:
        if item.path.parent == Path(__file__).parent and (number := getattr(item.cls, "parts", 1)) > 1:
            parts[item.cls] = number
            names[item.cls].append(item.name)
    kept = {each: set(share(sorted(names[each]), number, each.__name__)) for each, number in parts.items()}
    left_out = [item for item in items if item.cls in kept and item.name not in kept[item.cls]]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]
