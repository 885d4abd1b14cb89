"""Passes that insert rings and split the program into partitions and consumer groups."""
