"""Layouts: how tiles are distributed over registers, and which elements are contiguous or equal."""
