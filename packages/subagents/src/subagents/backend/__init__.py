"""For people who write a provider around a program: what more than one of them needs.

`values` reads messages of which nothing is certain, `homes` lends a folder to one run at a time, `fields` are types and
checks of options, `instructions` reads the texts that a project leaves for agents, `programs` finds the program and
says how it ended, `resets` reads when a limit ends, `toolchains` says what commands read beside what they are given.
Nothing of it is imported by `subagents` itself.
"""
