"""``python -m tawa`` is the command ``tawa``."""

from __future__ import annotations

from tawa.cli.main import main

if __name__ == "__main__":
    main()
