"""Benches of kernels with pointer loads; `bench.pointers.timing` is run as ``python -m bench.pointers``."""
