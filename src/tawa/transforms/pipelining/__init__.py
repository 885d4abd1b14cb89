"""Passes that overlap work: wgmmas in flight, stages, ping-pong, prefetched loads."""
