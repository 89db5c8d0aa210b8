"""Addresses: what of them may be shown, and which credentials go where."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import url2pathname

Auth = tuple[str, str]


def shown(url: str) -> str:
    """An address that may be shown: no user, no password, no query (a redirect's may hold a signature)."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that makes no sense"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def split_auth(url: str) -> tuple[str, Auth | None]:
    """An address without user and password, and these two decoded.

    Raises:
        ValueError: it is none.
    """
    parts = urlsplit(url)
    _ = parts.port  # urlsplit looks at the port only when it is asked for it
    userinfo, at, host = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    bare = urlunsplit((parts.scheme, host, parts.path, parts.query, parts.fragment))
    return bare, (unquote(user), unquote(password)) if at else None


def same_origin(one: str, other: str) -> bool:
    """Whether credentials for one address may be sent to the other."""
    return urlsplit(one)[:2] == urlsplit(other)[:2]


def local_path(url: str) -> Path | None:
    """The path of a ``file:`` address, None for any other one."""
    parts = urlsplit(url)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None
