"""One page of the simple API: the wheels that an index lists for a project.

Reads HTML (PEP 503) and JSON (PEP 691, sizes by PEP 700); the answer's Content-Type decides which. A page is read
openly: what is not understood is skipped. A file's address may point anywhere on the web, but only an index that is a
folder itself may point to a local file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from subagent_local._json import at, count, items, parsed, table
from subagent_local._pulling.urls import split_auth

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"


@dataclass(frozen=True, slots=True)
class Wheel:
    """One file of an index.

    Attributes:
        url: absolute, without a fragment.
        file_name: its last part, decoded.
        sha256: lower-case hex, where the index says it.
        size: bytes, where the index says it.
    """

    url: str
    file_name: str
    sha256: str | None = None
    size: int | None = None


def project_name(name: str) -> str:
    """The normalised form (PEP 503) under which an index lists a project."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse_page(body: str, content_type: str, url: str) -> list[Wheel]:
    """The wheels of a page that came from `url`.

    Raises:
        ValueError: it is neither the JSON of a project nor HTML, whatever it says.
    """
    return list(_json_wheels(body, url) if "json" in content_type.lower() else _html_wheels(body, url))


def list_local(path: Path) -> list[Wheel]:
    """The wheels that a page on the disk lists, the page of a folder, or, where there is none, the folder itself.

    Raises:
        OSError: the page cannot be read.
        ValueError: it is no HTML.
    """
    page = path if path.is_file() else path / "index.html"
    if page.is_file():
        return parse_page(page.read_text(encoding="utf-8", errors="replace"), "text/html", page.as_uri())
    return [Wheel(wheel.as_uri(), wheel.name) for wheel in sorted(path.glob("*.whl"))]


def pick(wheels: list[Wheel], project: str, version: str) -> Wheel | None:
    """The wheel of exactly this project and version; platform tags do not matter, as it is only read."""
    for wheel in wheels:
        # name-version(-build)?-python-abi-platform: the name in a wheel's file name never holds a dash
        parts = wheel.file_name.removesuffix(".whl").split("-")
        fits = project_name(parts[0]) == project_name(project) and parts[1:2] == [version]
        if fits and wheel.file_name.endswith(".whl") and len(parts) in (5, 6):
            return wheel
    return None


def _joined(base: str, link: str) -> str | None:
    """An absolute address; None when it makes no sense, or may not be followed from there."""
    try:
        url = urljoin(base, link)
        split_auth(url)
    except ValueError:
        return None
    scheme, local = urlsplit(url).scheme, urlsplit(base).scheme == "file"
    if scheme == "file" and "\0" in unquote(url):
        return None
    return url if scheme in ("http", "https") or (scheme == "file" and local) else None


def _json_wheels(body: str, url: str) -> Iterator[Wheel]:
    page = table(parsed(body))
    if "files" not in page:
        raise ValueError("the index answered with something else than the JSON of a project")
    for entry in items(page["files"]):
        name, link, digest = at(entry, "filename"), at(entry, "url"), at(entry, "hashes", "sha256")
        address = _joined(url, link) if isinstance(link, str) else None
        if isinstance(name, str) and address:
            yield Wheel(
                address.partition("#")[0],
                name,
                digest.lower() if isinstance(digest, str) else None,
                count(at(entry, "size")) or None,
            )


def _html_wheels(body: str, url: str) -> Iterator[Wheel]:
    parser = _Anchors()
    try:
        parser.feed(body)
    except AssertionError:  # HTMLParser's, at a declaration that it does not know, such as <![x[
        raise ValueError("the index answered with something else than HTML") from None
    base = _joined(url, parser.base) or url
    for href in parser.links:
        address = _joined(base, href)
        if address is None:
            continue
        link, _, fragment = address.partition("#")
        digest = re.search(r"(?:^|&)sha256=([0-9a-fA-F]{64})(?:&|$)", fragment)
        name = unquote(urlsplit(link).path.rpartition("/")[2])
        yield Wheel(link, name, digest[1].lower() if digest else None)


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.base = ""
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if href is None:
            return
        if tag == "a":
            self.links.append(href)
        elif tag == "base" and not self.base:
            self.base = href
