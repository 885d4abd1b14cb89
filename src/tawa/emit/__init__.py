"""Specialised kernels as source text that a person owns: Gluon, without Tawa."""
