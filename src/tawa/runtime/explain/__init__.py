"""Explanations of one kernel: what its launches get, why, and what it costs."""
