"""The program behind `FakeClaude`: `claude` as far as a client of its stream of JSON lines sees it.

It runs under `-I -S`, standard library only; the rest of the kit imports nothing of it but the names of its steps.
"""
