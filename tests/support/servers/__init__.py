"""Real servers for tests: brought up on the loopback, with their data in a temporary folder, and taken down again.

A server is started by its own launcher, never installed. It dies with whoever started it, however that died: a small shell
stands between the two, reads a pipe that nobody writes to, and takes the server down when the pipe ends.
"""
