"""Which indexes pip or uv is configured with: variables first, then files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from subagent_local._pulling.index import PUBLIC_INDEX, configured, index_at
from subagent_local._pulling.urls import shown

ENV: dict[str, tuple[dict[str, str], list[str]]] = {
    "uv default": ({"UV_DEFAULT_INDEX": "https://a/simple"}, ["https://a/simple/"]),
    "uv old name": ({"UV_INDEX_URL": "https://a/simple/"}, ["https://a/simple/"]),
    "uv new name first": ({"UV_INDEX_URL": "https://old/", "UV_DEFAULT_INDEX": "https://new/"}, ["https://new/"]),
    "pip": ({"PIP_INDEX_URL": "https://p/simple"}, ["https://p/simple/"]),
    "uv before pip": ({"PIP_INDEX_URL": "https://p/", "UV_DEFAULT_INDEX": "https://u/"}, ["https://u/"]),
    "extra of both, default last": (
        {"UV_INDEX": "https://e1/ corp=https://e2/", "PIP_EXTRA_INDEX_URL": "https://e3/ https://e4/"},
        ["https://e1/", "https://e2/", "https://e3/", "https://e4/", PUBLIC_INDEX],
    ),
    "old extra of uv": (
        {"UV_EXTRA_INDEX_URL": "https://e/?a=b", "UV_INDEX_URL": "https://d/"},
        ["https://e/", "https://d/"],
    ),
    "nothing": ({}, [PUBLIC_INDEX]),
    "empty means unset": ({"UV_DEFAULT_INDEX": "", "PIP_INDEX_URL": ""}, [PUBLIC_INDEX]),
    "the same one twice": ({"UV_INDEX": "https://a/", "UV_DEFAULT_INDEX": "https://a"}, ["https://a/"]),
    "no index at all": ({"PIP_NO_INDEX": "1", "UV_DEFAULT_INDEX": "https://a/"}, []),
    "no index but links": ({"PIP_NO_INDEX": "yes", "PIP_FIND_LINKS": "https://l/page.html"}, ["https://l/page.html"]),
    "links of uv have commas": (
        {"UV_FIND_LINKS": "https://l1/,https://l2/"},
        ["https://l1/", "https://l2/", PUBLIC_INDEX],
    ),
    "links of uv may have blanks": (
        {"UV_FIND_LINKS": "/my wheels, /more"},
        ["file:///my%20wheels", "file:///more", PUBLIC_INDEX],
    ),
    "an empty word is no word": ({"PIP_NO_INDEX": ""}, [PUBLIC_INDEX]),
    "a path": ({"UV_DEFAULT_INDEX": "/srv/simple"}, ["file:///srv/simple/"]),
}


def urls(env: dict[str, str], root: Path) -> list[str]:
    return [index.url for index in configured({"HOME": str(root / "home"), **env}, system=root).indexes]


@pytest.mark.parametrize("case", ENV)
def test_variables(case: str, tmp_path: Path) -> None:
    env, expected = ENV[case]
    assert urls(env, tmp_path) == expected


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


PIP_FILES = ["home/.config/pip/pip.conf", "home/.pip/pip.conf", "etc/pip.conf", "etc/xdg/pip/pip.conf"]
UV_FILES = ["home/.config/uv/uv.toml", "etc/xdg/uv/uv.toml", "etc/uv/uv.toml"]


@pytest.mark.parametrize("path", PIP_FILES)
def test_every_file_of_pip_is_read(path: str, tmp_path: Path) -> None:
    write(tmp_path, path, "[global]\nindex_url = https://f/simple\nextra-index-url =\n  https://x/\n  https://y/\n")
    assert urls({}, tmp_path) == ["https://x/", "https://y/", "https://f/simple/"]


@pytest.mark.parametrize("path", UV_FILES)
def test_every_file_of_uv_is_read(path: str, tmp_path: Path) -> None:
    write(tmp_path, path, 'extra-index-url = ["https://x/"]\nindex-url = "https://f/"\n[pip]\nno-index = false\n')
    assert urls({}, tmp_path) == ["https://x/", "https://f/"]


@pytest.mark.parametrize("later", range(1, len(PIP_FILES)))
def test_the_file_of_the_person_comes_before_that_of_the_machine(later: int, tmp_path: Path) -> None:
    write(tmp_path, PIP_FILES[later - 1], "[global]\nindex-url = https://first/\n")
    write(tmp_path, PIP_FILES[later], "[global]\nindex-url = https://second/\n")
    assert urls({}, tmp_path) == ["https://first/"]


def test_files_come_after_variables_and_those_of_uv_before_those_of_pip(tmp_path: Path) -> None:
    write(tmp_path, PIP_FILES[0], "[global]\nindex-url = https://pip-file/\n")
    assert urls({}, tmp_path) == ["https://pip-file/"]
    write(tmp_path, UV_FILES[0], 'index-url = "https://uv-file/"')
    assert urls({}, tmp_path) == ["https://uv-file/"]
    assert urls({"PIP_INDEX_URL": "https://variable/"}, tmp_path) == ["https://variable/"]


def test_the_section_of_a_command_comes_before_the_global_one(tmp_path: Path) -> None:
    text = "[global]\nindex-url = https://global/\n[install]\nindex-url = https://install/\n[list]\nindex-url = https://no/\n"
    write(tmp_path, PIP_FILES[0], text)
    assert urls({}, tmp_path) == ["https://install/"]


def test_a_chosen_file_of_pip_comes_before_the_others_and_the_null_device_means_none(tmp_path: Path) -> None:
    write(tmp_path, PIP_FILES[0], "[global]\nindex-url = https://own/\n")
    write(tmp_path, "chosen.conf", "[global]\nindex-url = https://chosen/\n")
    assert urls({"PIP_CONFIG_FILE": str(tmp_path / "chosen.conf")}, tmp_path) == ["https://chosen/"]
    assert urls({"PIP_CONFIG_FILE": os.devnull}, tmp_path) == [PUBLIC_INDEX]


def test_the_file_of_a_virtual_environment_is_read(tmp_path: Path) -> None:
    write(tmp_path, "venv/pip.conf", "[global]\nindex-url = https://venv/\n")
    assert urls({"VIRTUAL_ENV": str(tmp_path / "venv")}, tmp_path) == ["https://venv/"]


def test_a_chosen_file_of_uv_replaces_the_others_and_all_can_be_switched_off(tmp_path: Path) -> None:
    write(tmp_path, UV_FILES[0], 'index-url = "https://own/"')
    write(tmp_path, "chosen.toml", '[pip]\nindex-url = "https://chosen/"')
    assert urls({"UV_CONFIG_FILE": str(tmp_path / "chosen.toml")}, tmp_path) == ["https://chosen/"]
    assert urls({"UV_NO_CONFIG": "1"}, tmp_path) == [PUBLIC_INDEX]


def test_indexes_of_uv_by_table(tmp_path: Path) -> None:
    text = """
        [[index]]
        name = "corp"
        url = "https://corp/"
        [[index]]
        url = "https://default/"
        default = true
        [[index]]
        name = "pinned"
        url = "https://pinned-packages-only/"
        explicit = true
        [[index]]
        url = "https://flat/page"
        format = "flat"
        [[index]]
        name = "no address"
    """
    write(tmp_path, UV_FILES[0], text)
    env = {"UV_INDEX_CORP_USERNAME": "u", "UV_INDEX_CORP_PASSWORD": "p", "HOME": str(tmp_path / "home")}
    found = configured(env, system=tmp_path).indexes
    assert [(index.url, index.flat) for index in found] == [
        ("https://flat/page", True),
        ("https://corp/", False),
        ("https://default/", False),
    ]
    assert found[1].auth == ("u", "p")


def test_entries_of_the_wrong_type_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, UV_FILES[0], 'index-url = 3\nextra-index-url = ["https://x/", 4]\nindex = [5]\npip = 6\n')
    assert urls({}, tmp_path) == ["https://x/", PUBLIC_INDEX]
    write(tmp_path, UV_FILES[0], "index = 7")
    assert urls({}, tmp_path) == [PUBLIC_INDEX]


BROKEN = [
    (UV_FILES[0], b"= ="),
    (UV_FILES[0], b"# caf\xe9\n"),
    (PIP_FILES[0], b"https://robot:hunter2@x/"),
    (PIP_FILES[0], b"[global]\n# caf\xe9\nindex-url = https://robot:hunter2@x/\n"),
    (PIP_FILES[0], b"[global]\nindex-url = https://robot:hunter2@x/\nindex-url = https://robot:hunter2@y/\n"),
    (PIP_FILES[0], b"[global]\nindex-url = https://robot:hun/ter2@x/\n"),
    (UV_FILES[0], b'index-url = "https://robot:hun/ter2@x/"\n'),
]


@pytest.mark.parametrize(("path", "content"), BROKEN)
def test_a_broken_file_leaves_no_index_is_named_and_its_content_is_not_shown(
    path: str, content: bytes, tmp_path: Path
) -> None:
    write(tmp_path, path, "")
    (tmp_path / path).write_bytes(content)
    found = configured({"HOME": str(tmp_path / "home"), "PIP_CERT": "/pem"}, system=tmp_path)
    assert found.trouble is not None
    assert (found.indexes, found.certificate) == ((), Path("/pem"))
    assert str(tmp_path / path) in found.trouble
    assert not [word for word in ("robot", "hun", "ter2") if word in found.trouble]


ODD = [
    "https://robot:s3cret/x@host/simple",
    "https://robot:1234/x@host/simple",
    "https://robot:s3#cret@host/simple",
    "https://robot:1#s3cret@host/simple",
    "https://robot:1?s3cret@host/simple",
    "https://robot:s3cret@[::1/simple",
    "https://robot:s3cret@host:99999/simple",
    "robot:s3cret@host/simple",
    "pypi.example.com/simple",
    "~no-such-person/simple",
]


@pytest.mark.parametrize("name", ["PIP_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX", "UV_DEFAULT_INDEX"])
@pytest.mark.parametrize("address", ODD)
def test_an_address_that_makes_no_sense_leaves_no_index_names_its_variable_and_shows_nothing_of_it(
    name: str, address: str, tmp_path: Path
) -> None:
    found = configured({"HOME": str(tmp_path), name: address}, system=tmp_path)
    assert found.trouble is not None
    assert found.indexes == ()
    assert name in found.trouble
    assert not [word for word in ("s3", "cret", "robot", "1234", "example", "person") if word in found.trouble]


@pytest.mark.parametrize("address", ODD[:8])
def test_nothing_of_an_address_that_makes_no_sense_is_shown(address: str) -> None:
    assert not [word for word in ("s3", "cret", "1234") if word in shown(address).replace("://", "")]


def test_no_address_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="without https://"):
        index_at("")


def test_relative_paths_in_a_file_of_uv_are_relative_to_it(tmp_path: Path) -> None:
    write(tmp_path, UV_FILES[0], 'find-links = ["./wheels"]\n[[index]]\nurl = "../simple"\n')
    folder = (tmp_path / UV_FILES[0]).parent
    assert urls({}, tmp_path)[:2] == [(folder / "wheels").as_uri(), (folder / "../simple").as_uri() + "/"]


def test_the_names_of_pip_may_have_their_dashes_and_a_byte_order_mark_before_them(tmp_path: Path) -> None:
    write(tmp_path, PIP_FILES[0], "\ufeff[global]\n--index-url = https://f/\n")
    assert urls({}, tmp_path) == ["https://f/"]


def test_no_index_is_undone_by_a_more_important_layer_of_the_same_tool_alone(tmp_path: Path) -> None:
    write(tmp_path, PIP_FILES[0], "[global]\nno-index = true\n")
    assert urls({}, tmp_path) == []
    assert urls({"UV_NO_INDEX": "false"}, tmp_path) == []
    assert urls({"PIP_NO_INDEX": "false"}, tmp_path) == [PUBLIC_INDEX]


def test_without_any_home_the_files_of_the_machine_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    write(tmp_path, "etc/pip.conf", "[global]\nindex-url = https://f/\n")
    assert [index.url for index in configured({}, system=tmp_path).indexes] == ["https://f/"]


CERTIFICATES = [
    ({"SSL_CERT_FILE": "/1", "PIP_CERT": "/2", "REQUESTS_CA_BUNDLE": "/3"}, "/1"),
    ({"PIP_CERT": "/2", "REQUESTS_CA_BUNDLE": "/3", "CURL_CA_BUNDLE": "/4"}, "/2"),
    ({"REQUESTS_CA_BUNDLE": "/3", "CURL_CA_BUNDLE": "/4"}, "/3"),
    ({"CURL_CA_BUNDLE": "/4"}, "/4"),
]


@pytest.mark.parametrize(("env", "expected"), CERTIFICATES)
def test_the_certificate_file_is_the_one_of_the_first_layer(env: dict[str, str], expected: str, tmp_path: Path) -> None:
    assert configured({"HOME": str(tmp_path), **env}, system=tmp_path).certificate == Path(expected)


def test_the_certificate_file_of_pip_may_stand_in_its_file(tmp_path: Path) -> None:
    assert configured({"HOME": str(tmp_path)}, system=tmp_path).certificate is None
    write(tmp_path, "etc/pip.conf", "[global]\ncert = /pem\n")
    assert configured({"HOME": str(tmp_path)}, system=tmp_path).certificate == Path("/pem")


def test_credentials_are_taken_out_of_an_address_and_never_shown() -> None:
    index = index_at("https://robot:p%40ss@host:8443/simple?token=t")
    assert index.auth == ("robot", "p@ss")
    assert "robot" not in f"{index} {index!r}"
    assert "p%40ss" not in f"{index} {index!r}"
    assert "token" not in str(index)
    assert index_at("https://token@host/simple").auth == ("token", "")


def test_an_address_is_shown_without_user_password_and_query() -> None:
    assert shown("https://me:secret@host:8443/a/b?signature=s#f") == "https://host:8443/a/b"
    assert shown("http://me:secret@[::1") == "an address that makes no sense"


def test_this_machine_can_be_read() -> None:
    assert configured() is not None
