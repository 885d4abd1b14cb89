"""Abstract interpretation: affine tiles, value ranges with divisibility, host expressions."""
