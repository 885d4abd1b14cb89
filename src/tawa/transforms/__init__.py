"""Passes, one a file. See `tawa.pipeline` for their order."""
