"""Handlers of operations, one module per family."""
