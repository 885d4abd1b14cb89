"""What a Plan costs: registers, shared memory, cycles."""
