"""Real servers for tests: started on loopback with their data in a temporary folder, and stopped again.

A server is started by its own launcher, never installed. It ends with the process that started it, however that ends:
a small shell in between reads a pipe without a writer and stops the server at the end of the pipe.
"""
