"""One durable row with SQLite."""

import sys
import time

import apsw

db = apsw.Connection(sys.argv[1])
db.execute("pragma journal_mode = wal")
db.execute("pragma synchronous = full")
db.execute("create table t (id integer primary key, v text)")
db.execute("insert into t (v) values ('42')")
print(time.monotonic(), flush=True)
