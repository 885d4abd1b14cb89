"""Passes on TTIR, where tiles have no layouts yet."""
