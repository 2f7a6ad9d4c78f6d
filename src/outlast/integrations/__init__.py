"""Integrations with other systems: each needs an extra of its own, and is imported only when it is used."""
