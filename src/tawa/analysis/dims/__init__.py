"""Dimensions: what can be split among consumer groups, and what stays in lockstep."""
