"""Tests of what the pages show: their blocks are run, compiled, or at least read; their figures come from files."""
