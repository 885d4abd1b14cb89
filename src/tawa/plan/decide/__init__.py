"""Decisions, one family a file: each completes the Plan where it is open."""
