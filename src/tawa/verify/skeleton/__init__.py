"""The protocol skeleton: what both levels are compiled to, and what its numbers and rings are."""
