"""``python -m bench.regret``."""

from bench.regret.command import main

if __name__ == "__main__":
    raise SystemExit(main())
