"""The kernels of a process: recorded as they are compiled, profiled, written to a file, printed."""
