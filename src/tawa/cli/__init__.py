"""The `tawa` command: one file per command, thin over `tawa.runtime` and `tawa.bridge`."""
