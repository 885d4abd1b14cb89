"""Hooks of mkdocs."""
