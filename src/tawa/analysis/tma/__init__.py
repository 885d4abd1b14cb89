"""TMA: which pointer accesses it can make, and what each launch must satisfy."""
