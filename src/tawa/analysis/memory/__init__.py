"""Memory: where pointers come from, and which accesses matter to others."""
