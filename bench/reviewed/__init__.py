"""Faults that a reviewer planted without knowledge of the checks, and right programs that look odd."""
