"""WHAT HAPPENED: events, their ids, their bytes, their order.

This room owns the shape of a fact and of the record it is stored in, the chain of digests over those records, and which
events a branch sees. It refuses to know what a fact means (that is `lifecycle`), where it is kept (`store`) and what time
it is: the room is pure, so time and randomness are arguments.

What holds here:

H1  An event is immutable. Encoding and decoding it gives the same event, fields of newer versions included.
H2  The bytes of an append are stored and digested exactly as they were encoded; nothing re-encodes them.
H3  A digest covers every stored field of its append and the digest before it, from a first one made of the run's id.
H4  Each branch is one contiguous interval of seq; a lineage is a list of intervals; all of them begin with RunCreated.
"""
