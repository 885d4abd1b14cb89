"""Inline assembly: which of it touches only registers, the operations of Tawa that have its form, and rounding."""
