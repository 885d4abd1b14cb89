"""Passes on Triton's tile program, before it has layouts."""
