"""What Outlast shows of runs: typed structures for programs, each with a text form for people."""
