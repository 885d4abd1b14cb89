"""Passes for machines whose dots accumulate in tensor memory (Blackwell)."""
