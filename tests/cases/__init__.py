"""Specimens: kernels in plain Triton with their references and builders. Tests and benches share them."""
