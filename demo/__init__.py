"""`make demo`: a real workflow is killed half-way with SIGKILL, started again, and finishes; its log explains the
recovery."""
