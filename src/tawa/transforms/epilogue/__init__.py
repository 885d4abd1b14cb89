"""Passes on what follows the last access to a ring."""
