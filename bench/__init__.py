"""Benches: run one as ``python -m bench.NAME`` from the root of the repository. See docs/measuring.md."""
