"""Dimensions: which tiles can be split among consumer groups, and which control flow the groups execute in lockstep."""
