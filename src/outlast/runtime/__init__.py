"""THE HANDS: what runs the user's code, and what carries its values in and out.

This room owns the drivers (replay of durable functions, actors of graphs), the attempts they make, the executors an attempt
runs on, and the form in which values, errors and secrets are kept. It refuses to say what is true (that is `lifecycle`), to
write a fact by itself (`ledger`) and to know where bytes are kept (`store`).

What holds here:

R1  A value comes back equal and of the type its annotation says, or it is refused before anything is written.
R2  The same value has the same bytes, in every process.
R3  Nothing stored is pickled; to read a value or an error calls nothing that was not named by an annotation, but the
    import of the module that an error's class came from.
R4  Of a secret a reference is stored, and each attempt resolves it anew. What holds its value is refused, and in what is
    only said it is masked, in every form that `disguises` knows.
R5  An error comes back as its own class, with its arguments and attributes, or as a `NodeFailure` that names it.
R6  What code asks for begins only after the append that says so has landed, and an outcome is told in the order of the log,
    live and in replay.
R7  Code and log that disagree hold the run; nothing is guessed, and nothing of the log is changed.
R8  Whatever a node does, it becomes an outcome of its attempt: neither the engine nor other runs come to harm.
"""
