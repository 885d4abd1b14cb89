"""The barrier check, and the refinement of the aref level by the barrier level."""
