"""When a limit ends, out of what an engine says about it: an error text for people, or JSON.

Engines write the same in many ways (an epoch after a pipe, a clock time with or without a zone, a weekday, a date, "in
2 hours 5 minutes", members of an object); the ones that are known here come from public reports about Claude Code and
Codex. The most exact is taken first: an instant in JSON, a span in JSON, an epoch, and then the words.

Traps: a clock time alone is today's or tomorrow's, and one that has just passed is today's (a limit that resets at
10am, read at 10:03, is over). A time in a zone that is not known is no time at all: taken for one of here it would be
hours too early. Engines write clock times in the zone of their process, and these texts are wrapped, coloured, and set
with all sorts of blanks and bullets (`plain`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

_LOOKED_AT: Final = 65_536  # characters
_FARTHEST: Final = 35 * 86_400.0  # s from now
_OLDEST: Final = 1e9  # an earlier epoch (2001) is some other number
_MILLISECONDS: Final = 1e11  # an epoch from here on is in milliseconds
_GRACE: Final = 900.0  # s in which a clock time that has passed is today's and not tomorrow's

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_UNSEEN: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_APOSTROPHES: Final = re.compile("[\u2018\u2019\u02bc\u02b9\u00b4`]")

_NUMBER: Final = r"(\d{1,20}(?:\.\d{1,9})?)"
_INSTANT: Final = re.compile(
    r'(?i)(?:resets?[-_]?(?:at|time|date)|ratelimit-[-a-z]{0,40}reset)"?\s{0,9}[:=]\s{0,9}(?:some\()?"?([^\s",})]{1,40})'
)
_PERIOD: Final = re.compile(
    rf'(?i)(?:resets?_?(?:in|after)|retry[-_]?after)(_?ms)?(?:_?seconds)?"?\s{{0,9}}[:=]\s{{0,9}}(?:some\()?"?{_NUMBER}'
)
_PIPE: Final = re.compile(r"\|\s?(\d{1,20})(?!\d)")
_CUE: Final = re.compile(
    r"(?i)\b(?:resets?|resetting|refresh(?:es)?|renews?|refills?|restored|try again|come back|retry|available|until"
    r"|(?:regain|get) access)\b"
    r"(?:[ -](?:again|at|on|after|in|next|about|around|approximately)\b)*:? ~?"
)
_SPAN: Final = re.compile(
    rf"(?i){_NUMBER} ?(weeks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|milliseconds?|ms|m|seconds?|secs?|s)(?![a-z])"
    r"(?:,? and |, |,| )?"
)
_ONE: Final = re.compile(r"(?i)\A(?:an?|one) ")
_UNITS: Final = {"w": 604_800.0, "d": 86_400.0, "h": 3600.0, "mi": 60.0, "m": 60.0, "s": 1.0, "ms": 0.001, "mil": 0.001}
_ISO: Final = re.compile(
    r"(?i)(\d{4}-\d\d-\d\d)(?:T| at | )(\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)"
    r"(?: ?(Z\b|(?:UTC|GMT)\b(?![+-])|[+-]\d\d:?\d\d))?"
)
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE: Final = rf"""
    (?: (?P<near>today|tonight|tomorrow) \b ,? \ ? )?
    (?: (?P<weekday>{"|".join(_DAYS)}) (?:s|r|rs|nes|ur)? (?:day)? \b ,? \ ? )?
    (?: (?:the\ )? (?P<first>\d{{1,2}}) (?:st|nd|rd|th)? \ (?:of\ )? (?= (?:{"|".join(_MONTHS)}) ) )?
    (?: (?P<month>{"|".join(_MONTHS)}) [a-z]{{0,6}} \b \.? (?: \  (?P<day>\d{{1,2}}) (?:st|nd|rd|th)? (?![\w:]) )?
        (?: ,? \  (?P<year>\d{{4}}) \b )? ,? \ ? )?
"""
_ZONE: Final = r"""
    (?: \.? \ ? \( (?P<zone>[^()\s]{1,40}) \)
      | \ ? (?P<short>(?-i: Z\b | (?:UTC|GMT)(?:[+-]\d{1,2}(?::?\d\d)?)? | [A-Z]{1,4}T\b | [+-]\d\d:?\d\d\b
            | [A-Z][A-Za-z_]{1,30}/[A-Za-z_/+-]{1,40} | (?:Pacific|Mountain|Central|Eastern)\b )) )?
"""
_TIME: Final = re.compile(
    rf"""(?ix) {_DATE}
    (?: (?:at\ )? (?: (?P<word>noon|midnight) \b
        | (?P<hour>\d{{1,2}}) (?: : (?P<minute>\d\d) (?: :\d\d )? )? (?: \ ? (?P<half>[ap]) (?:m\b | \.m\b\.?) )? ) )?
    {_ZONE}
    """
)
_DATED: Final = re.compile(rf"(?ix) ,? \ (?:on\ )? {_DATE} {_ZONE}")
"""A date behind the time, as in `9am on Monday (UTC)`."""
_OFFSET: Final = re.compile(r"(?i:UTC|GMT)?([+-])(\d{1,2})(?::?(\d\d))?")


def plain(text: str) -> str:
    """A text of an error as one line of plain words, to look for words in it.

    Colours, links and marks that nobody sees are out, every run of blanks is one, and every apostrophe is `'`. Never
    raises; the first 65,536 characters.
    """
    shown = _UNSEEN.sub("", _ESCAPES.sub("", text[:_LOOKED_AT]))
    return " ".join(_APOSTROPHES.sub("'", shown).split())


def reset_time(text: str, *, now: datetime) -> float | None:
    """When the limit that an error speaks of ends, as Unix time in seconds.

    For providers whose engine reports a used-up quota in words, as
    ``You've hit your limit · resets 10pm (America/New_York)`` or ``{"resets_at": 1900000000}``. Only for texts of an
    error: the words of a model are about anything. Never raises.

    Args:
        text: what the engine said; its first 65,536 characters are looked at.
        now: the present time. Clock times without a zone are in its zone; without one, it is in the local one.

    Returns:
        The instant, at most 35 days from now; one that has passed is a limit that is over. None when no instant is
        given, or none that can be told.
    """
    try:
        now = now.astimezone() if now.tzinfo is None else now
        present = now.timestamp()
    except (OverflowError, ValueError, OSError):  # at the ends of the calendar
        return None
    found = (_within(instant, present) for instant in _candidates(plain(text), now, present))
    return next((instant for instant in found if instant is not None), None)


def plausible(stamp: object, *, now: datetime) -> float | None:
    """The instant that an engine gives by itself, in seconds, milliseconds or as ISO 8601, as Unix time in seconds.

    None for what is neither, and for an instant that is no end of a limit: more than 35 days ahead, or before 2001.
    `now` is aware. Never raises.
    """
    if isinstance(stamp, bool) or not isinstance(stamp, int | float | str):
        return None
    try:
        return _within(_instant(f"{stamp}"[:40], now), now.timestamp())
    except (OverflowError, ValueError):  # more digits than Python writes
        return None


def _within(instant: float | None, present: float) -> float | None:
    return instant if instant is not None and _OLDEST <= instant <= present + _FARTHEST else None


def _candidates(words: str, now: datetime, present: float) -> Iterator[float | None]:
    for found in _INSTANT.finditer(words):
        yield _instant(found[1], now)
    for found in _PERIOD.finditer(words):
        yield present + float(found[2]) * (0.001 if found[1] else 1.0)
    for found in _PIPE.finditer(words):
        yield _epoch(found[1])
    for cue in _CUE.finditer(words):
        rest = words[cue.end() : cue.end() + 120]
        yield _span(rest, present) or _instant(rest, now) or _clock(rest, now, present)


def _epoch(digits: str) -> float:
    value = float(digits)
    return value / 1000 if value >= _MILLISECONDS else value


def _instant(text: str, now: datetime) -> float | None:
    if found := _ISO.match(text):
        try:
            zone = "Z" if (found[3] or "").upper() in ("Z", "UTC", "GMT") else found[3] or ""
            stamp = datetime.fromisoformat(f"{found[1]}T{found[2]}{zone}")
            return (stamp.replace(tzinfo=now.tzinfo) if stamp.tzinfo is None else stamp).timestamp()
        except (ValueError, OverflowError):
            return None
    return _epoch(text) if re.fullmatch(_NUMBER, text) else None


def _span(text: str, present: float) -> float | None:
    text = _ONE.sub("1 ", text)
    at, seconds = 0, 0.0
    while found := _SPAN.match(text, at):
        at = found.end()
        unit = found[2].lower()
        size = _UNITS[unit if unit in _UNITS else unit[:3] if unit[:3] in _UNITS else unit[0]]
        seconds += float(found[1]) * size
    return present + seconds if at else None


def _clock(text: str, now: datetime, present: float) -> float | None:
    """A time, a date, or both, in either order."""
    found = _TIME.match(text)
    if found is None:  # pragma: no cover  # never: every part of it may be missing
        return None
    try:
        return _told(found, text, now, present)
    except (OverflowError, ValueError):  # a time or a date that there is not, or one beyond the calendar
        return None


def _told(found: re.Match[str], text: str, now: datetime, present: float) -> float | None:
    timed = found["word"] or (found["hour"] and (found["minute"] or found["half"]))
    date = found
    if timed and not (found["near"] or found["weekday"] or found["month"]):
        behind = _DATED.match(text, found.end())
        if behind is not None and (behind["near"] or behind["weekday"] or behind["month"]):
            date = behind
    day = int(date["day"] or date["first"] or 0)
    if date["month"] and not day:
        return None
    if not timed and (found["hour"] or not date["month"]):
        return None
    named = found["zone"] or found["short"]
    zone = _zone(named if date is found or named else date["zone"] or date["short"], now)
    if zone is None:
        return None
    hour = {"noon": 12, "midnight": 0}.get((found["word"] or "").lower(), int(found["hour"] or 0))
    if found["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found["half"].lower() == "p" else 0)
    minute = int(found["minute"] or 0)
    today = now.astimezone(zone).replace(hour=hour, minute=minute, second=0, microsecond=0)
    if date["month"]:
        month = _MONTHS.index(date["month"].lower()) + 1
        if date["year"]:
            return today.replace(year=int(date["year"]), month=month, day=day).timestamp()
        years = (year for year in range(today.year - 1, today.year + 2) if _is_date(year, month, day))
        stamps = (today.replace(year=year, month=month, day=day).timestamp() for year in years)
        return next((stamp for stamp in stamps if abs(stamp - present) <= _FARTHEST), None)
    if date["near"]:
        return (today + timedelta(days=date["near"].lower() == "tomorrow")).timestamp()
    if date["weekday"]:
        ahead = (_DAYS.index(date["weekday"].lower()) - today.weekday()) % 7
        days = [ahead - 7, ahead, ahead + 7]
    else:
        days = [-1, 0, 1]
    stamps = ((today + timedelta(days=day)).timestamp() for day in days)
    return next((stamp for stamp in stamps if stamp >= present - _GRACE), None)


def _is_date(year: int, month: int, day: int) -> bool:
    try:
        datetime(year, month, day)
    except ValueError:
        return False
    return True


def _zone(name: str | None, now: datetime) -> tzinfo | None:
    if name is None:
        return now.tzinfo
    if found := _OFFSET.fullmatch(name):
        offset = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
        return timezone(-offset if found[1] == "-" else offset)
    try:
        return ZoneInfo("UTC" if name.upper() in ("Z", "UTC", "GMT") else name)
    except (KeyError, ValueError, OSError):  # unknown; no name of a zone; a folder of zones
        return None
