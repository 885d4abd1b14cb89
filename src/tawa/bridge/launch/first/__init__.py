"""The first launches of a kernel, and what is made in the background meanwhile."""
