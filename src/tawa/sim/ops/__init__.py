"""What each operation does, a file for each family."""
