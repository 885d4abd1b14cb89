"""Inputs and references that several packages share."""
