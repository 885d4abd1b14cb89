"""Kernels that load through pointers, in the styles found in the wild."""
