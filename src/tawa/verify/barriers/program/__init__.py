"""The program that the barrier check unrolls: its operations, decisions and loops."""
