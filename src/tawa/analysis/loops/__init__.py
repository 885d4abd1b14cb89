"""Loops: dependences, costs, wgmmas in flight, loads to prefetch, trip counts."""
