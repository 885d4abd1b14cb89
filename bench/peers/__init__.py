"""Kernels specialised by hand, measured beside Tawa: the speed that the back end allows."""
