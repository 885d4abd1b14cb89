"""Benches of attention; `bench.attention.timing` is run as ``python -m bench.attention``."""
