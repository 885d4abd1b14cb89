"""The credit check of the aref level."""
