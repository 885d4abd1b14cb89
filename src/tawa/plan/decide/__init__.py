"""Decisions, one family per file: each fills in fields that the Plan leaves open."""
