"""The attention operators: forward and backward, packed sequences, decoding."""
