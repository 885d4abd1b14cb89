"""The proof: all runs, with every unknown unconstrained."""
