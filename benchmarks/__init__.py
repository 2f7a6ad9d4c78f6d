"""Programs that measure Outlast against the limits of the machine they run on. `make bench` runs them all."""
