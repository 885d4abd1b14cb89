"""Small kernels in plain Triton, simulated on NumPy data: forms of pointer loads, loops and tables."""
