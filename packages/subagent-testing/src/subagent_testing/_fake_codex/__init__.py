"""The program behind `FakeCodex`: `codex` as far as an app-server's client sees it.

It runs under `-I -S`, standard library only; the rest of the kit imports nothing of it but the names of its steps.
"""
