"""Measurements, side by side in one run.  Ratios and medians count; the machine is shared."""
