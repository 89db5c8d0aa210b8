"""The one place that decides what a path may be, the same on every platform.

A path that a task may name is relative to the working folder, its parts are joined by `/`, and it means the same file
on Linux, macOS and Windows.  It is text to look at, so nothing in it may hide.  What it leads to on this machine (a
link, a folder, nothing) is not looked at here: that is `read_files`.

Stricter than one system needs, on purpose: a name with `?`, one that ends in a dot, and `NUL.txt` are refused on Linux
too.  So is every name of the form that Windows makes up for a long one (`GIT~1`, `PROGRA~1.TXT`): it may be another
file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from subagent_workspace._names import code, fold, hidden, shown
from subagent_workspace.errors import PathsRefused

__all__ = ["check_paths", "refusal"]

_LONGEST_PART: Final = 255  # bytes of UTF-8: the limit of every file system that matters
_LONGEST: Final = 4096

# Each table is searched in its order, and the first that matches (`re.search`) gives the reason.
_WHOLE: Final = (
    (r"\A\Z", "it is empty"),
    (r"\A/", "it begins at the root: name it relative to the working folder"),
    (r"\A[A-Za-z]:", "it names a drive: name it relative to the working folder"),
    (r"\A~", "~ means a home folder: name it relative to the working folder"),
    (r"\\", "it has a backslash, which is a separator on Windows: use /"),
    (r"(\A|/)\.\.(/|\Z)", "it leads out of a folder (..)"),
    (r"(\A|/)\.(/|\Z)", "it has a part that is a dot: leave it out"),
    (r"//|/\Z", "it has an empty part (//, or / at its end)"),
)
# On the parts of the folded form, so that no other case, no full-width letter and no one-dot leader gets by.
_FOLDED: Final = (
    (r"\A\.git[. ]*(:|\Z)", "it leads into .git, which belongs to git"),
    (r"\A(con|prn|aux|nul|conin\$|conout\$|clock\$|(com|lpt)[0-9]) *([.:]|\Z)", "Windows keeps that name for a device"),
    (
        r"\A(?=[^.]{3,8}(\.|\Z))[^.~]{1,6}~[0-9]+(\.[^.]{0,3})?\Z",
        "it has the form of a short name (NAME~1), which Windows makes up for another file",
    ),
    (r"\A[. ]+\Z", "it has a part that is only dots"),
)
_PART: Final = (
    (r'[:<>"|?*]', 'it has one of : < > " | ? *, which no name on Windows may hold (and patterns are not expanded)'),
    (r"[. ]\Z", "it has a part that ends in a dot or a space, which Windows drops"),
    (r"\A ", "it has a part that begins with a space"),
)


def _first(table: tuple[tuple[str, str], ...], text: str) -> str | None:
    return next((reason for pattern, reason in table if re.search(pattern, text)), None)


def refusal(path: str) -> str | None:
    r"""Why a task may not name this path; None if it may.  Pure: it looks at nothing but its argument.

    Accepted is what is relative, with `/` between its parts, at most 4,096 bytes of UTF-8 and 255 in each part.
    Refused: `..`, an empty or dot part, a drive, a leading `~`, any of ``\ : < > " | ? *``; characters that are
    control, format, private, unassigned, surrogate or blank other than the space; `.git` in any disguise; device names
    and short names of Windows; a part that begins with a space or ends with a space or a dot.
    """
    if len(path) > _LONGEST:
        return _too_long(len(path))
    if (c := hidden(path)) is not None:
        return f"it holds a character that does not show ({code(c)})"
    if (size := len(path.encode())) > _LONGEST:
        return _too_long(size)
    if reason := _first(_WHOLE, path):
        return reason
    for part in re.split(r"[/\\]", fold(path)):
        if reason := _first(_FOLDED, part):
            return reason
    for part in path.split("/"):
        if reason := _first(_PART, part):
            return reason
        if (size := len(part.encode())) > _LONGEST_PART:
            return f"it has a part of {size:,} bytes: {_LONGEST_PART} is the most"
    return None


def _too_long(size: int) -> str:
    return f"it is {size:,} bytes long: {_LONGEST:,} is the most"


def check_paths(paths: Iterable[str]) -> None:
    """Refuse all paths of one task that it may not name, at once.

    Beside what `refusal` says: a path that is named twice, one that is the same as another where case or the form of
    letters does not count, and one that lies below another, as if that were a folder.

    Raises:
        PathsRefused: with a reason for each.
    """
    reasons: dict[str, str] = {}
    seen: dict[str, str] = {}
    for path in paths:
        if reason := refusal(path):
            reasons[path] = reason
        elif (other := seen.get(key := fold(path))) is None:
            seen[key] = path
        elif other == path:
            reasons[path] = "it is named twice"
        else:
            reasons[path] = f"it falls together with {shown(other)} where case or the form of letters does not count"
    for key, path in seen.items():
        above = (seen.get(key[: match.start()]) for match in re.finditer("/", key))
        if folder := next(filter(None, above), None):
            reasons.setdefault(path, f"it lies below {shown(folder)}, which is named as a file")
    if reasons:
        raise PathsRefused(reasons)
