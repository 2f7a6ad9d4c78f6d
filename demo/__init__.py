"""`make demo`: a real workflow is killed half-way with SIGKILL, started again, and finishes; the log tells what happened."""
