"""Abstract interpretation: what scalars and tiles are, as expressions of values that are known. No program changes."""
