"""The operators of matrix products."""
