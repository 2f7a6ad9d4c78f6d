"""What the server does in one call: append a batch, claim many runs, keep lines. `{s}` stands for the schema.

Every statement inside a function sees what was committed before it began. So each function first takes the locks it needs,
always those of heads and in the order of their numbers, and then looks: what it finds is what is there. The plans are told
to go by the indexes: a plan made while the tables were small would otherwise read them whole when they are large. Nobody
holds a head for long; who waits for one longer than ten seconds is told that the store is busy.
"""

from __future__ import annotations

from outlast.stores.postgres.functions.appending import APPEND
from outlast.stores.postgres.functions.claiming import CLAIM
from outlast.stores.postgres.functions.keeping import KEEP
from outlast.stores.postgres.functions.tending import TEND
from outlast.stores.postgres.functions.ways import CLOCK

FUNCTIONS = CLOCK + APPEND + CLAIM + KEEP + TEND
