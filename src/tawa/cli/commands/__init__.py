"""The commands of `tawa`, one file each."""
