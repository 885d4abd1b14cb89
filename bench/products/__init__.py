"""Benches of the operators of matrix products."""
