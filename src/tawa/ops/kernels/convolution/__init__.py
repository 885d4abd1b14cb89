"""Convolution kernels in plain Triton: the transform to window order, and the product over overlapping windows."""
