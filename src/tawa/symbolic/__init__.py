"""What numbers and tiles of numbers are: affine tiles, value ranges with divisibility, expressions for the host."""
