"""Forms of addresses and masks that are boxes, though not at first sight; each kernel has one."""
