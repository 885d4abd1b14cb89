"""Passes, one per file. See `tawa.pipeline` for their order."""
