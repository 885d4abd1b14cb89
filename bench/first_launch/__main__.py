"""Times processes that start with stock Triton's kernels and learn: ``python -m bench.first_launch``."""

from bench.first_launch.command import main

if __name__ == "__main__":
    raise SystemExit(main())
