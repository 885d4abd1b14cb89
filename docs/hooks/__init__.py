"""Hooks of mkdocs, and what they take from the sources."""
