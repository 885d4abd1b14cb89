"""TMA: which pointer accesses can become TMA copies, and the conditions that each launch must satisfy."""
