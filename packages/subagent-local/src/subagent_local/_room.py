"""Whether prompt and answer fit into the window of a model: the rule, for numbers that were counted or estimated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# Characters of each kind, and how many tokens a hundred of them are, more or less: tokenizers differ by a factor of 2
# (digits: one token for each, or one for three).
_WEIGHTS: Final = (
    (re.compile(r"[^\W\d_]|\s", re.ASCII), 25),  # Latin letters and blanks: words
    (re.compile(r"[!-@\[-`{-~]"), 45),  # digits, signs, and with them hex and base64
    (re.compile(r"[^\x00-\u2e7f]"), 75),  # Chinese, Japanese, Korean, emoji
)
_OTHER: Final = 40
# Long runs of one character are few tokens: indentation, rules of dashes.
_RUN: Final = re.compile(r"(.)\1{3,}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Window:
    """What has to fit.

    Attributes:
        prompt: tokens of the whole prompt.
        context: tokens that prompt and answer may have together.
        files: tokens of an answer that writes the files as they are now; 0 where none is to be written.
        about: these are estimates.
    """

    prompt: int
    context: int
    files: int = 0
    about: bool = False

    def cut(self, read: int | None) -> bool:
        """Whether a server that says how many tokens it has read cannot have read the whole prompt.

        Counted by another tokenizer a text has no half as many tokens as this estimate; of a number that was counted a
        tenth may be missing (a template that the count did without). A server that says 0 does not count.
        """
        return bool(read) and read * 10 < self.prompt * (5 if self.about else 9)

    @property
    def rewrite(self) -> int:
        """Tokens of an answer that writes the files: a fifth more than they are now."""
        return self.files + -(-self.files // 5)

    def room(self, max_tokens: int) -> int:
        """The most tokens of the answer: a rewrite may take what there is, another answer has its room kept free."""
        return min(max_tokens, self.context - self.prompt) if self.files else max_tokens

    def refusal(self, max_tokens: int) -> str | None:
        """Why it does not fit, with the numbers; None when it does."""
        about = "about " if self.about else ""
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
                f"more than the {self.context:,} of the window: give fewer or smaller files, or raise context"
            )
        return (
            f"the prompt has {about}{self.prompt:,} tokens and {kept:,} are kept for the answer (max_tokens), together "
            f"more than the {self.context:,} of the window: shorten the prompt, lower max_tokens, or raise context"
        )


def estimate(text: str) -> int:
    """About how many tokens a text has, by no tokenizer; seldom more than twice as many, or less than half."""
    text = _RUN.sub(r"\1\1\1", text)
    kinds = [(len(kind.findall(text)), weight) for kind, weight in _WEIGHTS]
    other = len(text) - sum(number for number, _ in kinds)
    return -(-(sum(number * weight for number, weight in kinds) + other * _OTHER) // 100)
