"""A parrot that repeats its task, as a provider of subagents."""

from subagent_parrot.options import ParrotOptions
from subagent_parrot.provider import Parrot

__all__ = ["Parrot", "ParrotOptions"]
