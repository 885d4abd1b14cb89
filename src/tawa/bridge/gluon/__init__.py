"""Gluon kernels: explicit already, so they are compiled as they are, and checked."""
