"""Loops: dependences, costs, dots in flight, trip counts."""
