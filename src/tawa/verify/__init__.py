"""Checks of the protocol between partitions: credits at the aref level; slots, parities, bytes, races below it."""
