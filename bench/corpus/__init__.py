"""Other people's Triton kernels under Tawa: are they right, and are they ever slower. See ``docs/corpus.md``."""
