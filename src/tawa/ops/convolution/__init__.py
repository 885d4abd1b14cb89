"""`tawa.ops.conv2d`: convolution as a product over overlapping windows, and how it is launched."""
