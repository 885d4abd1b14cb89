"""Whole models, training, reading a prompt and decoding. See ``python -m bench.decoder --help``."""
