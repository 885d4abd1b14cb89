"""Benches of GEMM with descriptors; `bench.gemm.timing` is run as ``python -m bench.gemm``."""
