"""A Hopper CTA in NumPy: partitions as coroutines, TMA, mbarriers, wgmma groups, two memory proxies."""
