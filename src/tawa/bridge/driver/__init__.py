"""From a request to a kernel: the hook, one compile, and the loop that tries Plans."""
