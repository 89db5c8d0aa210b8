"""When a limit ends, out of what an engine says about it: an error text for people, or JSON.

Engines write the same in many ways (an epoch after a pipe, a clock time with or without a zone, a weekday, a date, "in
2 hours 5 minutes", members of an object); the ones that are known here come from public reports about Claude Code and
Codex. The most exact is taken first: an instant in JSON, a span in JSON, an epoch, and then the words.

Traps: a clock time alone is today's or tomorrow's, and one that has just passed is today's (a limit that resets at
10am, read at 10:03, is over). A time in a zone that is not known is no time at all. Engines write clock times in the
zone of their process, and these texts are wrapped, coloured, and set with all sorts of blanks and bullets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

_LOOKED_AT: Final = 65_536  # characters
_FARTHEST: Final = 35 * 86_400.0  # s from now
_OLDEST: Final = 1e9  # an earlier epoch (2001) is some other number
_MILLISECONDS: Final = 1e11  # an epoch from here on is in milliseconds
_GRACE: Final = 900.0  # s in which a clock time that has passed is today's and not tomorrow's

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")

_NUMBER: Final = r"(\d{1,20}(?:\.\d{1,9})?)"
_INSTANT: Final = re.compile(r'(?i)resets?_?at"?\s{0,9}[:=]\s{0,9}(?:some\()?"?([^\s",})]{1,40})')
_PERIOD: Final = re.compile(
    rf'(?i)(?:resets?_?(?:in|after)|retry[-_]?after)(_?ms)?(?:_?seconds)?"?\s{{0,9}}[:=]\s{{0,9}}(?:some\()?"?{_NUMBER}'
)
_PIPE: Final = re.compile(r"\|\s?(\d{1,20})(?!\d)")
_CUE: Final = re.compile(
    r"(?i)\b(?:resets?|try again|retry|available|renews?|until)\b(?: (?:again|at|on|after|in)\b)*:? "
)
_SPAN: Final = re.compile(
    rf"(?i){_NUMBER} ?(weeks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|milliseconds?|ms|m|seconds?|secs?|s)(?![a-z])"
    r"(?:,? and |, |,| )?"
)
_UNITS: Final = {"w": 604_800.0, "d": 86_400.0, "h": 3600.0, "mi": 60.0, "m": 60.0, "s": 1.0, "ms": 0.001, "mil": 0.001}
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)?")
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME: Final = re.compile(
    rf"""(?ix)
    (?: (?P<near>today|tomorrow) \b ,? \ ? )?
    (?: (?P<weekday>{"|".join(_DAYS)}) [a-z]{{0,6}} \b ,? \ ? )?
    (?: (?P<month>{"|".join(_MONTHS)}) [a-z]{{0,6}} \.? \  (?P<day>\d{{1,2}}) (?:st|nd|rd|th)? \b
        (?: ,? \  (?P<year>\d{{4}}) \b )? ,? \ ? )?
    (?: (?:at\ )? (?P<hour>\d{{1,2}}) (?: : (?P<minute>\d\d) (?: :\d\d )? )? (?: \ ? (?P<half>[ap]) \.?m\b )? )?
    (?: \.? \ ? \( (?P<zone>[^()\s]{{1,40}}) \) | \  (?P<short>(?-i:[A-Z]{{1,4}}T|UTC)) \b )?
    """
)


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
    text = _ESCAPES.sub("", text[:_LOOKED_AT])
    try:
        now = now.astimezone() if now.tzinfo is None else now
        present = now.timestamp()
        for found in _candidates(text, now, present):
            if found is not None and _OLDEST <= found <= present + _FARTHEST:
                return found
    except (OverflowError, ValueError, OSError):  # a date that there is not, or one beyond the calendar
        pass
    return None


def _candidates(text: str, now: datetime, present: float) -> Iterator[float | None]:
    for found in _INSTANT.finditer(text):
        yield _instant(found[1], now)
    for found in _PERIOD.finditer(text):
        yield present + float(found[2]) * (0.001 if found[1] else 1.0)
    for found in _PIPE.finditer(text):
        yield _epoch(found[1])
    words = " ".join(text.split())
    for cue in _CUE.finditer(words):
        rest = words[cue.end() : cue.end() + 120]
        yield _span(rest, present) or _instant(rest, now) or _clock(rest, now, present)


def _epoch(digits: str) -> float:
    value = float(digits)
    return value / 1000 if value >= _MILLISECONDS else value


def _instant(text: str, now: datetime) -> float | None:
    if found := _ISO.match(text):
        try:
            stamp = datetime.fromisoformat(found[0])
        except ValueError:
            return None
        return (stamp.replace(tzinfo=now.tzinfo) if stamp.tzinfo is None else stamp).timestamp()
    return _epoch(text) if re.fullmatch(_NUMBER, text) else None


def _span(text: str, present: float) -> float | None:
    at, seconds = 0, 0.0
    while found := _SPAN.match(text, at):
        at = found.end()
        unit = found[2].lower()
        seconds += float(found[1]) * _UNITS[unit if unit in _UNITS else unit[:3] if unit[:3] in _UNITS else unit[0]]
    return present + seconds if at else None


def _clock(text: str, now: datetime, present: float) -> float | None:
    found = _TIME.match(text)
    if found is None:  # pragma: no cover  # never: every part of it may be missing
        return None
    timed = found["hour"] is not None and (found["minute"] is not None or found["half"] is not None)
    dated = found["month"] is not None
    if not (timed or (dated and found["hour"] is None)):
        return None
    zone = _zone(found["zone"] or found["short"], now)
    if zone is None:
        return None
    hour, minute = (int(found["hour"]), int(found["minute"] or 0)) if timed else (0, 0)
    if found["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found["half"].lower() == "p" else 0)
    today = now.astimezone(zone).replace(hour=hour, minute=minute, second=0, microsecond=0, fold=0)
    if dated:
        month, day = _MONTHS.index(found["month"].lower()) + 1, int(found["day"])
        if found["year"]:
            return today.replace(year=int(found["year"]), month=month, day=day).timestamp()
        years = (year for year in range(today.year - 1, today.year + 2) if _is_date(year, month, day))
        stamps = (today.replace(year=year, month=month, day=day).timestamp() for year in years)
        return next((stamp for stamp in stamps if abs(stamp - present) <= _FARTHEST), None)
    if found["near"]:
        return (today + timedelta(days=found["near"].lower() == "tomorrow")).timestamp()
    if found["weekday"]:
        ahead = (_DAYS.index(found["weekday"].lower()) - today.weekday()) % 7
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
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown; no name of a zone; a folder of zones
        return None
