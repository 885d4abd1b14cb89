"""The orders in which the programs of a persistent form take the tiles of the grid."""
