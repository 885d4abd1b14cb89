"""Tuning: Plans measured once, remembered in a table, chosen at launches; in this process, or by `tawa tune`."""
