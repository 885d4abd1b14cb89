"""Attention kernels in plain Triton: forward and backward, their cases and their references."""
