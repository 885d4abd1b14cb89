"""What a process sees of Tawa from its first launch on: when it starts, what goes on meanwhile, what is learned."""
