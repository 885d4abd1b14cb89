"""Tests of launches that learn."""
