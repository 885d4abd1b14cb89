"""Pure operations, constants and layouts as expressions of Gluon."""
