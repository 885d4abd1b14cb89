"""`tawa demo`: real kernels compiled, proved, simulated and, on a Hopper GPU, run and timed."""
