"""Kernels of products of groups of rows, and of mixtures of experts."""
