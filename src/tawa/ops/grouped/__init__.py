"""Products of groups of rows, and mixtures of experts."""
