"""Which numbers are tried, so that every decision is seen to go each way."""
