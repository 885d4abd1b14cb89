"""Random kernels: recipes, their source text, and what is checked of each."""
