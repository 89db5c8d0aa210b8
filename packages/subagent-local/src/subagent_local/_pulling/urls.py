"""Addresses: what of them may be shown, and which credentials go where."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import url2pathname

Auth = tuple[str, str]


_ODD = "an address that makes no sense"


def shown(url: str) -> str:
    """An address that may be shown: no user, no password, no query (a redirect's may hold a signature)."""
    try:
        bare, _ = split_auth(url)
        require_whole(url)
    except ValueError:
        return _ODD
    parts = urlsplit(bare)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))


def require_whole(url: str) -> None:
    """Refuse an address that may hold its password where nobody looks for one.

    Of ``https://me:1/2@host`` the host is ``me`` and the port 1: a password with ``/``, ``#`` or ``?`` in it ends the
    host too early, and the rest of it, with the ``@``, is a path like any other.

    Raises:
        ValueError: there is an ``@`` behind the host.
    """
    parts = urlsplit(url)
    if parts.scheme != "file" and "@" in parts.path + parts.query + parts.fragment:
        raise ValueError(_ODD)


def split_auth(url: str) -> tuple[str, Auth | None]:
    """An address without user and password, and these two decoded.

    Raises:
        ValueError: it is none. The text holds nothing of it: what the library quotes may be a piece of a password.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port  # urlsplit looks at the port only when it is asked for it
    except ValueError:
        raise ValueError(_ODD) from None
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
