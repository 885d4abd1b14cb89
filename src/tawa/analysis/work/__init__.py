"""How much a kernel computes and moves: by block of the program, and for a launch."""
