"""The part of an emitted file that launches its kernel with the arguments of the kernel that it came from."""
