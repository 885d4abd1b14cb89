"""What is needed to measure the Plans of a compiled kernel: which Plans, its key, its source."""
