"""The attention kernels of the PyTorch operators, forward and backward, in plain Triton."""
