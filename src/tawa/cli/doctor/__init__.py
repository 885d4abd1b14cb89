"""What `tawa doctor` checks: versions, this machine, folders, settings, and a kernel."""
