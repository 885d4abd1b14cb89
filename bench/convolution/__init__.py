"""Convolution beside cuDNN, and im2col with cuBLAS: correctness, times, extra memory, tiles."""
