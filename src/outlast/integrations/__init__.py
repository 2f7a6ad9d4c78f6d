"""DOORS TO OTHER HOUSES: each behind an extra of its own, and imported when it is wanted, never before."""
