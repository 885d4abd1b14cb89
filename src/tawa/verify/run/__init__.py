"""One run of a protocol program: its events, and the happens-before order that decides all interleavings."""
