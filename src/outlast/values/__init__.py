"""How Python values are stored, and read back.

This package owns codecs for annotated types, call arguments, blobs for large values, errors as data, tracebacks, and
secrets. It decides nothing about runs and writes no events.

R1  A value is read back equal and of its annotated type, or it is refused before anything is written.
R2  The same value has the same bytes in every process.
R3  Nothing stored is pickled. Reading a value or an error imports at most the module of an error's class.
R4  A secret is stored as a reference, which each attempt resolves. A value that contains the text of a secret is refused,
    and log lines that contain it are masked, in every form that `secret_patterns` knows.
R5  An error is restored as its own class with its arguments and attributes, or as a `NodeFailure` that names the class.
"""
