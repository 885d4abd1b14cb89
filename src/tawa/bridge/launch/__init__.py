"""Launches of compiled kernels: the arguments that Tawa adds, and the choice between kernels."""
