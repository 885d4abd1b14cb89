"""Rings: which loads move to a producer, which of them share a ring, and the backward slice that a partition needs."""
