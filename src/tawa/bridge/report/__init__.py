"""Reports on a compile: its record, a summary of its machine code, a folder that replays a failure, and warnings."""
