"""Whole operations in the style of other packages: state spaces, mLSTM, experts, paged and sparse attention."""
