"""The clock: costs, timelines and their pictures."""
