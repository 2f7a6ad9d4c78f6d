"""The events of a run: their types, ids, bytes and order.

This package owns the types of events and of the records that store them, the chain of digests over those records, and the
lineage of events that a branch sees. `lifecycle` owns the meaning of events, and `store` owns their storage. The package is
pure: time and randomness are arguments.

Promises:

H1  An event is immutable. Encoding and decoding it gives the same event, fields of newer versions included.
H2  The bytes of an append are stored and digested exactly as they were encoded; they are never encoded again.
H3  A digest covers every stored field of its append and the previous digest; the first one is made from the run's id.
H4  Each branch is one contiguous interval of seq; a lineage is a list of intervals; all of them begin with RunCreated.
"""
