"""Layouts of tiles in registers."""
