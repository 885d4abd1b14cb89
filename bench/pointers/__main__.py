"""``python -m bench.pointers``: see `bench.pointers.timing`."""

import os
import sys

from bench.pointers.timing import main

status = main()
sys.stdout.flush()
os._exit(status)  # skips the slow destruction of the CUDA context
