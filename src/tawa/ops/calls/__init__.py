"""What all operators share: plain calls, repeated launches, tensors as TMA sees them, checks of arguments."""
