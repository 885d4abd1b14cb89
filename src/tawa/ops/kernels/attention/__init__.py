"""The attention kernels: forward, backward, packed sequences, decoding."""
