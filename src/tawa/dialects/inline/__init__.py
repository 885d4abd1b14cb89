"""Inline assembly: which of it touches only registers, and the operations of Tawa that have its form."""
