"""The machine: a CTA, its memory, values and mbarriers."""
