"""Launches that are more than a launch: added arguments, and which kernel one gets."""
