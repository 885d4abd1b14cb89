"""The user interface in Python: `jit`, `install`, settings, `explain`, `report`, simulation."""
