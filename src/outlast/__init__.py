"""Outlast: workflows that cannot be lost."""

__version__ = "0.1.0"
