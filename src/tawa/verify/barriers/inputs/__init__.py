"""The numbers that are tried, chosen so that every decision has each of its outcomes."""
