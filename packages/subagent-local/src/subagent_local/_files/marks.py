"""The marks of chat templates: what begins and ends a message for a model.

Trap: the engine reads a prompt as one text, and takes such a mark in the middle of it for its own, not for characters:
`<|im_end|>` in a file ends the message that shows the file, and what follows can be one of the system.  No boundary
around the file helps, since nothing has to be closed.  One space makes a mark plain characters again.

The table holds the marks by which ChatML, Llama, Mistral, Gemma, Phi, DeepSeek, Granite and Command tell messages
apart.  The model at hand is not asked: a file is refused or not whatever the model.
"""

from __future__ import annotations

import re
from typing import Final

_MARKS: Final = (
    r"<[|\uff5c][^\s|\uff5c<>]{1,64}[|\uff5c]?>",  # <|im_end|>, <|turn>, and the wide bars of DeepSeek
    r"<[^\s|\uff5c<>]{1,64}[|\uff5c]>",  # <turn|>
    r"<(?:start|end)_of_turn>|</s>|<[be]os>",
    r"<</?SYS>>",
    r"\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)\]",
)
# One character, and the mark that begins with it: a mark within another one is found, too.
_MARK: Final = re.compile(f"(?=({'|'.join(_MARKS)})).")


def find_mark(text: str) -> str | None:
    """The first mark in a text; None where it holds none."""
    found = _MARK.search(text)
    return found and found[1]


def break_marks(text: str) -> tuple[str, int]:
    """The text with a space behind the first character of each mark, and how many there were."""
    return _MARK.subn(r"\g<0> ", text)
