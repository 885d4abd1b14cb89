"""Rings: which loads move to a producer, which of them share a ring, and what a partition needs."""
