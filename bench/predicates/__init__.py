"""Random release predicates with the truth by brute force: ``python -m bench.predicates --help``."""
