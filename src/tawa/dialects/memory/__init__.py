"""What is known of memory: live ranges in shared memory, and loads whose number may change."""
