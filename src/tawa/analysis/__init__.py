"""Analyses: pure functions from IR to frozen results. Nothing here changes a program."""
