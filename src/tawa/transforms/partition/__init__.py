"""Passes that make partitions: rings, slices, consumer groups."""
