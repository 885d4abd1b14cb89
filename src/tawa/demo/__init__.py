"""What `tawa demo` shows: its kernels, their problems, and the race on a GPU."""
