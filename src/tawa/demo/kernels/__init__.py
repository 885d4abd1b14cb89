"""The kernels that `tawa demo` shows. Its attention kernel is that of the operator, in `tawa.ops.kernels`."""
