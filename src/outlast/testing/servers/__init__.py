"""Real servers for tests, brought up on loopback by the tests that need them and gone when those are over."""
