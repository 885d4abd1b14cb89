"""The cost model against measurements: points, the fit of its coefficients, and its errors."""
