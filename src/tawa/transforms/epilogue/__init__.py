"""Passes on the epilogue: the code after a consumer's last ring access, and its TMA stores."""
