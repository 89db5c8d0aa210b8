"""Whether prompt and answer fit into the window of a model: the rule, for numbers that were counted or estimated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# Characters of each kind, and how many tokens a hundred of them are, more or less, for Qwen and SmolLM.
_WEIGHTS: Final = (
    (re.compile(r"[A-Za-z ]"), 25),
    (re.compile(r"[0-9]"), 90),  # a token for each; others have one for three
    (re.compile(r"[!-/:-@\[-`{-~\t\n]"), 60),
    (re.compile(r"[^\x00-\u2e7f]"), 75),  # Chinese, Japanese, Korean, emoji
)
_OTHER: Final = 80
# Long runs of one character are few tokens: indentation, rules of dashes.
_RUN: Final = re.compile(r"(.)\1{3,}", re.DOTALL)
# Every tokenizer parts runs of letters, so that none has a token of two: the marks of scripts that have such go along.
_MARKS: Final = (
    r"\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u065f\u0670\u06d6-\u06ed"
    r"\u0900-\u0dff\u0e31-\u0e4e\u0eb1-\u0ece\u0f00-\u1fff"
)
_LETTERS: Final = re.compile(rf"[^\W\d_\u2e80-\U0010ffff](?:[^\W\d_\u2e80-\U0010ffff]|[{_MARKS}])*")
_DIGITS: Final = re.compile(r"[0-9]")
_IDEOGRAPHS: Final = re.compile(r"[\u2e80-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Window:
    """What has to fit.

    Attributes:
        prompt: tokens of the whole prompt.
        context: tokens that prompt and answer may have together.
        files: tokens of an answer that writes the files as they are now; 0 where none is to be written.
        least: that the prompt has by any tokenizer, where the others are estimates; None where they were counted.
        beside: bytes of what the server puts into the prompt by itself.
    """

    prompt: int
    context: int
    files: int = 0
    least: int | None = None
    beside: int = 0

    def cut(self, read: int | None) -> bool:
        """Whether a server that says how many tokens it has read cannot have read the whole prompt.

        A tenth may be missing: a template that the count did without.
        """
        return read is not None and read * 10 < 9 * self.surely

    @property
    def surely(self) -> int:
        """Tokens that the prompt has in any case."""
        return self.prompt if self.least is None else self.least

    @property
    def about(self) -> str:
        """In front of a number that is an estimate."""
        return "" if self.least is None else "about "

    @property
    def rewrite(self) -> int:
        """Tokens of an answer that writes the files: a fifth more than they are now."""
        return self.files + -(-self.files // 5)

    def room(self, max_tokens: int) -> int:
        """The most tokens of the answer: a rewrite may take what there is, another answer has its room kept free."""
        return min(max_tokens, self.context - self.prompt) if self.files else max_tokens

    def refusal(self, max_tokens: int, widen: str = "") -> str | None:
        """Why it does not fit, with the numbers; None when it does. `widen` is how the window is made larger."""
        about, or_widen = self.about, f" ({widen})" if widen else ""
        if self.rewrite > max_tokens:
            return (
                f"the files to write need {about}{self.rewrite:,} tokens (a fifth more than they have now), more than "
                f"the {max_tokens:,} of an answer (max_tokens): give fewer or smaller files, or raise max_tokens"
            )
        kept = self.rewrite or max_tokens
        if self.prompt + kept <= self.context:
            return None
        if self.files:
            return (
                f"the prompt has {about}{self.prompt:,} tokens and the files to write need {about}{kept:,}, together "
                f"more than the {self.context:,} of the window: give fewer or smaller files, or raise context{or_widen}"
            )
        return (
            f"the prompt has {about}{self.prompt:,} tokens and {kept:,} are kept for the answer (max_tokens), together "
            f"more than the {self.context:,} of the window: shorten the prompt, lower max_tokens, or raise context"
            f"{or_widen}"
        )


def estimate(text: str) -> int:
    """About how many tokens a text has, by no tokenizer."""
    text = _RUN.sub(r"\1\1\1", text)
    kinds = [(len(kind.findall(text)), weight) for kind, weight in _WEIGHTS]
    other = len(text) - sum(number for number, _ in kinds)
    return -(-(sum(number * weight for number, weight in kinds) + other * _OTHER) // 100)


def least(text: str) -> int:
    """How many tokens a text has at the least: one for each run of letters, four digits, four ideographs.

    Or one for each word between blanks, where those are more. Held against the tokenizers of Qwen2.5 and OpenAI: half
    to nine tenths of code and prose, a third of Japanese or Thai.
    """
    runs = sum(1 for _ in _LETTERS.finditer(text))
    runs += len(_DIGITS.findall(text)) // 4 + (0 if text.isascii() else len(_IDEOGRAPHS.findall(text)) // 4)
    return max(runs, len(text.split()))
