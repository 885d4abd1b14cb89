"""Builders of small programs as text in generic form: TTIR, TTGIR, nests of loops, loops of many dots."""
