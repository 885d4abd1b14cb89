"""Other people's Triton kernels under Tawa: whether they are right, and ever slower. See ``docs/corpus.md``."""
