"""The search for a witness."""
