"""The GPU in numbers: its limits and rates, the coefficients of the model of time, what operations ask of its units."""
