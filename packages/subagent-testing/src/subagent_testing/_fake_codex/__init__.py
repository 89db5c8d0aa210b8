"""The program behind `FakeCodex`: `codex` as far as an app-server's client sees it.

It runs under `-I -S`, standard library only, as a package of its own; the rest of the kit never imports it.
"""
