"""Runs of chosen numbers: the search for a witness."""
