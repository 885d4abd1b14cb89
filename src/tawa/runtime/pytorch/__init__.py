"""PyTorch: what `tawa.install` changes in it, and the services that launches use: scratch memory, and timing."""
