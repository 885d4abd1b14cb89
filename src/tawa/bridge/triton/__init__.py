"""What is Triton's own: its stages, its texts, its cache, its versions, and what it says when it refuses."""
