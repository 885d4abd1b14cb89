"""Rings in an emitted file: recognised, named, and written as calls of `Ring`."""
