"""Gluon kernels of other projects, read from outside of this repository: what `tawa verify` says of them."""
