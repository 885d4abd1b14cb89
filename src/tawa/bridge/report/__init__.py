"""What is told of a compile: its record, what its machine code does, and a folder that replays a failure."""
