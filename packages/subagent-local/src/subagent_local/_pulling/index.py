"""Which package indexes pip or uv is configured with on this machine.

Layers, the first one wins where only one thing can be meant (the default index, the certificate file):

    UV_* variables, PIP_* variables, uv.toml of the person, uv.toml of the machine, pip.conf (PIP_CONFIG_FILE, site,
    user, legacy user, machine)

Extra indexes and find-links of all layers are used. The public index is asked only when no layer names a default one
and none says ``no-index``: who has configured an index of their own does not want another one to be asked. For the
same reason a file or an address that cannot be understood leaves no index at all, and `IndexConfig.trouble` says why.

Configuration of a *project* (``pyproject.toml``, ``uv.toml`` in the working folder) is not read: the working folder
belongs to the task, and a repository must not choose where this program downloads from. Form read in the documentation
of uv 0.9 and pip 25; observed with the files and variables of a machine that has an extra ``file://`` index.

Not read, on purpose: ``trusted-host``, ``UV_INSECURE_HOST`` (certificates are always checked), ``PIP_PROXY`` and the
``proxy`` of pip.conf (set ``HTTPS_PROXY``), ``netrc`` and keyrings (credentials stand in the address, or in uv's
``UV_INDEX_<NAME>_USERNAME``). ``SSL_CERT_DIR`` counts where no layer names a certificate file.
"""

from __future__ import annotations

import configparser
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from subagent_local._json import items, table
from subagent_local._pulling import settings
from subagent_local._pulling.urls import Auth, require_whole, shown, split_auth
from subagent_process.environment import person_home

PUBLIC_INDEX = "https://pypi.org/simple/"


@dataclass(frozen=True, slots=True)
class Index:
    """One place that lists wheels.

    Attributes:
        url: without user and password; always ends in ``/`` for an index.
        flat: one page or folder that lists files (find-links), not a page per project.
        auth: user and password, sent to `url`'s own origin only.
    """

    url: str
    flat: bool = False
    auth: Auth | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """Address without user, password and query, for messages."""
        return shown(self.url)


@dataclass(frozen=True, slots=True)
class IndexConfig:
    """What the layers say together.

    Attributes:
        indexes: in the order in which they are asked.
        certificate: a file of certificates to trust in place of the usual ones.
        trouble: why it is not known which indexes are meant; then there are none. It names the file or the variables,
            and holds nothing of an address.
    """

    indexes: tuple[Index, ...]
    certificate: Path | None = None
    trouble: str | None = None


@dataclass(slots=True)
class _Layer:
    origin: str  # the file, or the variables, for people
    tool: str = ""
    folder: Path = Path()  # what a relative path is relative to
    trouble: str | None = None
    default: str | None = None
    extra: Sequence[str] = ()
    links: Sequence[str] = ()
    no_index: bool | None = None  # None: it does not say
    certificate: str | None = None
    names: Mapping[str, str] = field(default_factory=dict[str, str])  # address -> name, of uv's named indexes


def index_at(url: str, *, flat: bool = False, auth: Auth | None = None, folder: Path = Path()) -> Index:
    """Take the credentials out of an address; a plain path, relative to `folder`, becomes a ``file://`` address.

    Raises:
        ValueError: it is neither; the text says what to do, and holds nothing of it.
    """
    if "://" not in url and not url.startswith("file:"):
        url = _as_file(url, folder)
    try:
        require_whole(url)
        bare, own = split_auth(url.partition("#")[0])
    except ValueError:
        raise ValueError(
            "an address that makes no sense: write / as %2F, # as %23, ? as %3F and @ as %40 in its password, "
            "and @ as %40 in its path"
        ) from None
    return Index(bare if flat else bare.partition("?")[0].rstrip("/") + "/", flat, own or auth)


def _as_file(text: str, folder: Path) -> str:
    try:
        path = (folder / Path(text).expanduser()).absolute()
    except RuntimeError:
        raise ValueError("a path that begins with ~ and the name of nobody") from None
    # pypi.example.com/simple is an address without its beginning, and no folder of the working folder
    if not text or not (text.startswith((".", "/", "~")) or path.exists()):
        raise ValueError("an address without https:// that is no path of a folder either")
    return path.as_uri()


def configured(env: Mapping[str, str] | None = None, *, system: Path = Path("/")) -> IndexConfig:
    """Read the layers.

    Args:
        env: the environment to read; this process's by default.
        system: the folder below which the machine's own files lie.
    """
    env = settings.environment() if env is None else env
    layers = list(_layers(env, system))
    certificate = env.get("SSL_CERT_FILE") or next((layer.certificate for layer in layers if layer.certificate), None)
    certificate = certificate or env.get("REQUESTS_CA_BUNDLE") or env.get("CURL_CA_BUNDLE")
    indexes, trouble = (), next((layer.trouble for layer in layers if layer.trouble), None)
    try:
        indexes = () if trouble else tuple(dict.fromkeys(_indexes(layers, env)))
    except ValueError as error:
        trouble = str(error)
    return IndexConfig(indexes, Path(certificate) if certificate else None, trouble)


def _indexes(layers: Sequence[_Layer], env: Mapping[str, str]) -> Iterator[Index]:
    for layer in layers:
        for url in layer.links:
            yield _named(url, layer, env, flat=True)
    for tool in ("uv", "pip"):
        said = (layer.no_index for layer in layers if layer.tool == tool and layer.no_index is not None)
        if next(said, False):
            return
    for layer in layers:
        for url in layer.extra:
            yield _named(url, layer, env)
    default = next((layer for layer in layers if layer.default), _Layer("", default=PUBLIC_INDEX))
    yield _named(default.default or "", default, env)


def _named(url: str, layer: _Layer, env: Mapping[str, str], *, flat: bool = False) -> Index:
    """An index, with the credentials that uv takes from variables named after it."""
    key = re.sub(r"[^A-Z0-9]", "_", layer.names.get(url, "").upper())
    user, password = env.get(f"UV_INDEX_{key}_USERNAME", ""), env.get(f"UV_INDEX_{key}_PASSWORD", "")
    auth = (user, password) if key and (user or password) else None
    try:
        return index_at(url, flat=flat, auth=auth, folder=layer.folder)
    except ValueError as error:
        raise ValueError(f"{layer.origin} names {error}") from error


def _layers(env: Mapping[str, str], system: Path) -> Iterator[_Layer]:
    yield _uv_variables(env)
    yield _pip_variables(env)
    own, shared = settings.config_homes(env)
    if not _true(env.get("UV_NO_CONFIG", "")):
        if env.get("UV_CONFIG_FILE"):
            yield from _uv_file(Path(env["UV_CONFIG_FILE"]))
        else:
            machine = [_below(system, folder) for folder in (*shared, Path("/etc"))]
            for folder in (own, *machine):
                yield from _uv_file(folder / "uv" / "uv.toml")
    for path in _pip_files(env, system):
        yield from _pip_file(path)


def _uv_variables(env: Mapping[str, str]) -> _Layer:
    variables = "UV_DEFAULT_INDEX, UV_INDEX_URL, UV_INDEX, UV_EXTRA_INDEX_URL, UV_FIND_LINKS"
    layer = _Layer(f"one of the variables {variables}", "uv")
    layer.links = [entry.strip() for entry in env.get("UV_FIND_LINKS", "").split(",") if entry.strip()]
    names: dict[str, str] = {}
    entries = f"{env.get('UV_INDEX', '')} {env.get('UV_EXTRA_INDEX_URL', '')}".split()
    extra = [_split_name(entry, names) for entry in entries]
    default = env.get("UV_DEFAULT_INDEX") or env.get("UV_INDEX_URL")
    layer.default = _split_name(default, names) if default else None
    layer.extra, layer.names, layer.no_index = extra, names, _flag(env.get("UV_NO_INDEX"))
    return layer


def _split_name(entry: str, names: dict[str, str]) -> str:
    """``name=address`` or an address; uv's names have no colon and no slash, so a query's ``=`` is not meant."""
    name, equals, url = entry.partition("=")
    if not equals or not re.fullmatch(r"[\w.-]+", name):
        return entry
    names[url] = name
    return url


def _pip_variables(env: Mapping[str, str]) -> _Layer:
    return _Layer(
        "one of the variables PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS",
        "pip",
        default=env.get("PIP_INDEX_URL") or None,
        extra=env.get("PIP_EXTRA_INDEX_URL", "").split(),
        links=env.get("PIP_FIND_LINKS", "").split(),
        no_index=_flag(env.get("PIP_NO_INDEX")),
        certificate=env.get("PIP_CERT") or None,
    )


def _uv_file(path: Path) -> Iterator[_Layer]:
    try:
        text = _read(path)
        settings = {} if text is None else cast("dict[str, object]", tomllib.loads(text))
    except ValueError as error:  # a TOMLDecodeError is one, and so is what UTF-8 does not know
        yield _Layer(str(path), trouble=f"{path} is not valid TOML: {error}")
        return
    for level in (settings, table(settings.get("pip"))):
        layer = _Layer(str(path), "uv", folder=path.parent)
        layer.extra, layer.links = _strings(level, "extra-index-url"), _strings(level, "find-links")
        layer.default = next(iter(_strings(level, "index-url")), None)
        no_index = level.get("no-index")
        layer.no_index = no_index if isinstance(no_index, bool) else None
        names: dict[str, str] = {}
        for entry in items(level.get("index")):
            _uv_index(table(entry), layer, names)
        layer.names = names
        yield layer


def _uv_index(entry: Mapping[str, object], layer: _Layer, names: dict[str, str]) -> None:
    """One ``[[index]]`` table; an explicit one serves only packages that are pinned to it, so it is left out."""
    url, name = entry.get("url"), entry.get("name")
    if not isinstance(url, str) or entry.get("explicit") is True:
        return
    if isinstance(name, str):
        names[url] = name
    if entry.get("format") == "flat":
        layer.links = [*layer.links, url]
    elif entry.get("default") is True:
        layer.default = url
    else:
        layer.extra = [*layer.extra, url]


def _pip_files(env: Mapping[str, str], system: Path) -> Iterator[Path]:
    """The files of pip, the most important one first; PIP_CONFIG_FILE=/dev/null means none of them."""
    chosen = env.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return
    if chosen:
        yield Path(chosen)
    own, shared = settings.config_homes(env)
    home = person_home(env)
    yield Path(env.get("VIRTUAL_ENV") or sys.prefix) / "pip.conf"
    yield own / "pip" / "pip.conf"
    yield home / "Library" / "Application Support" / "pip" / "pip.conf"
    yield home / ".pip" / "pip.conf"
    yield _below(system, Path("/etc/pip.conf"))
    for folder in shared:
        yield _below(system, folder / "pip" / "pip.conf")


def _pip_file(path: Path) -> Iterator[_Layer]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(_read(path) or "")
    except (configparser.Error, UnicodeDecodeError) as error:
        yield _Layer(str(path), trouble=f"{path} is not a valid pip configuration: {type(error).__name__}")
        return
    for section in ("install", "global"):  # a command's own section comes before the global one
        if not parser.has_section(section):
            continue
        values = {key.replace("_", "-").removeprefix("--"): value for key, value in parser.items(section)}
        yield _Layer(
            str(path),
            "pip",
            default=values.get("index-url") or None,
            extra=values.get("extra-index-url", "").split(),
            links=values.get("find-links", "").split(),
            no_index=_flag(values.get("no-index")),
            certificate=values.get("cert") or None,
        )


def _below(root: Path, path: Path) -> Path:
    return root / path.relative_to("/") if path.is_absolute() else path


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError:
        return None


def _strings(level: Mapping[str, object], key: str) -> list[str]:
    value = level.get(key)
    return [entry for entry in items(value) or [value] if isinstance(entry, str)]


def _flag(text: str | None) -> bool | None:
    return _true(text) if text else None


def _true(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes", "on", "y", "t")
