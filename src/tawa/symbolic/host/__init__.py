"""Expressions for the host: what a launch computes from its arguments, and what must hold of them."""
