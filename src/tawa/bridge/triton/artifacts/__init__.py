"""What Triton leaves behind: cached files, cubins, the log of ptxas."""
