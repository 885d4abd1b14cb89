"""Passes from arefs to mbarriers and partition regions."""
