"""Protocols in Gluon, each known to be right or faulty, by somebody who had not read the checks."""
