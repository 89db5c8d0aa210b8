"""Whether prompt and answer fit into the window of a model: the rule, for numbers that were counted or estimated."""

from __future__ import annotations

from dataclasses import dataclass


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
