"""The only place that touches Triton's internals: versions, stage split, hook, cache keys, compile, reports."""
