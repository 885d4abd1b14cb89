"""The GPU in numbers."""
