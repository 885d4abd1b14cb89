"""One run: its events, and the happens-before order that decides all interleavings."""
