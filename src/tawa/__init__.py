"""Tawa."""
