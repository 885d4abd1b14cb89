"""GEMM: kernels, float64 references, and the list of cases that tests and benches share."""
