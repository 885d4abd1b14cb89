"""Mappings in a compile: resolved to a Plan, and errors told in their words."""
