"""The inputs of the commands: a kernel, its signature and constants, the arguments of a launch."""
