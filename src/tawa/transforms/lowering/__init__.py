"""Passes that lower arefs to mbarriers and groups to partition regions."""
