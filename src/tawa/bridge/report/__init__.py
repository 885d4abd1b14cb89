"""Reports on a compile: its record, a summary of its machine code, and a folder that replays a failure."""
