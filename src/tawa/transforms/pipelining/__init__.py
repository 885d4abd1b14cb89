"""Passes that overlap: wgmmas in flight, stages, turns, prefetched loads."""
