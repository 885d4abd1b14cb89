"""Regret: the time of what automatic mode chooses over the time of the best candidate, kernel by kernel."""
