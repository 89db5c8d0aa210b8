"""What the fake programs have in common: their two ends, steps that wait, and the steps that any program has.

It runs under `-I -S`, standard library only; the rest of the kit never imports it.
"""
