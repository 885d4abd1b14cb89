"""Hand-written kernels to be measured beside Tawa: what the back end can reach when a person specialises."""
