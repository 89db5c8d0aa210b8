"""Files read for a task: what is refused, on real files, and what comes back."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from subagent_workspace.errors import FilesRefused, FolderUnusable
from subagent_workspace.protection import PROTECTED, SECRET, protecting
from subagent_workspace.reading import Limits, read_files

LIMIT = 256 * 1024


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.py").write_bytes(b"one\ntwo\n")
    (tmp_path / "secret.txt").write_text("outside")
    return folder


def reasons(
    folder: Path, read: tuple[str, ...] = (), write: tuple[str, ...] = (), limits: Limits | None = None
) -> dict[str, str]:
    with pytest.raises(FilesRefused) as caught:
        read_files(folder, read, write, limits=limits)
    return caught.value.reasons


def test_a_file_comes_back_with_its_bytes_its_text_and_what_identifies_it(folder: Path) -> None:
    data = b"\xef\xbb\xbfone\r\nzw\xc3\xb6lf"
    (folder / "sub/b.txt").write_bytes(data)
    os.chmod(folder / "sub/b.txt", 0o640)
    (read,), (new, old) = read_files(folder, ["sub/b.txt"], ["sub/new.py", "a.py"])
    st = (folder / "sub/b.txt").stat()
    assert read.path == "sub/b.txt"
    assert (read.data, read.text) == (data, "one\nzwölf")
    assert (read.form.bom, read.form.newline, read.form.mixed, read.form.final_newline) == (True, "\r\n", False, False)
    assert read.identity is not None
    assert (read.identity.dev, read.identity.ino, read.identity.size) == (st.st_dev, st.st_ino, len(data))
    assert (read.identity.mtime_ns, stat.S_IMODE(read.identity.mode)) == (st.st_mtime_ns, 0o640)
    assert read.identity.sha256 == hashlib.sha256(data).hexdigest()
    assert (new.path, new.exists, new.data, new.text) == ("sub/new.py", False, b"", "")
    assert (old.exists, old.text) == (True, "one\ntwo\n")
    assert "zwölf" not in repr(read)


def test_reading_leaves_the_file_as_it_was(folder: Path) -> None:
    before = (folder / "a.py").stat()
    read_files(folder, write=["a.py"])
    after = (folder / "a.py").stat()
    assert (before.st_mtime_ns, before.st_ctime_ns) == (after.st_mtime_ns, after.st_ctime_ns)
    assert sorted(p.name for p in folder.iterdir()) == ["a.py", "sub"]


def test_the_folder_itself_may_be_reached_through_a_link(folder: Path) -> None:
    link = folder.parent / "w"
    link.symlink_to(folder)
    (read,), _ = read_files(link, ["a.py"])
    assert read.path == "a.py"
    assert read.root == (folder.stat().st_dev, folder.stat().st_ino)


@pytest.mark.parametrize("name", ["missing", "file", "loop", "nul\0"])
def test_a_folder_that_cannot_be_opened_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(FolderUnusable) as caught:
        read_files(f"{tmp_path}/{name}", ["a"])
    assert caught.value.reason
    assert "\0" not in str(caught.value)


def test_every_path_is_told_with_its_reason_at_once_in_the_order_of_the_lists(folder: Path) -> None:
    found = reasons(folder, ("missing.txt", "a.py", "../x"), ("sub", "A.py", "no/new.txt", "nul", "fine.txt"))
    assert list(found) == ["missing.txt", "a.py", "../x", "sub", "A.py", "no/new.txt", "nul"]
    assert "does not exist" in found["missing.txt"]
    assert "falls together" in found["a.py"]
    assert "a folder" in found["sub"]
    assert "make it first" in found["no/new.txt"]


LINKS: dict[str, Callable[[Path], None]] = {
    "out/secret.txt": lambda w: (w / "out").symlink_to(w.parent),
    "f": lambda w: (w / "f").symlink_to("../secret.txt"),
    "absolute": lambda w: (w / "absolute").symlink_to(w.parent / "secret.txt"),
    "inside": lambda w: (w / "inside").symlink_to("a.py"),
    "chain1": lambda w: ((w / "chain1").symlink_to("chain2"), (w / "chain2").symlink_to("a.py"))[0],
    "dangling": lambda w: (w / "dangling").symlink_to("../made-outside"),
    "loop": lambda w: (w / "loop").symlink_to("loop"),
    "in/a.py": lambda w: (w / "in").symlink_to("."),
    "sub/up/a.py": lambda w: (w / "sub/up").symlink_to(".."),
    "deep/x/y/secret.txt": lambda w: ((w / "deep").mkdir(), (w / "deep/x").symlink_to(".."))[0],
    "proc/cwd": lambda w: (w / "proc").symlink_to("/proc/self"),
}


@pytest.mark.parametrize("path", LINKS)
@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_link_anywhere_on_the_way_is_refused_wherever_it_leads(folder: Path, path: str, kind: str) -> None:
    LINKS[path](folder)
    lists = ((path,), ()) if kind == "read" else ((), (path,))
    assert "link" in reasons(folder, *lists)[path]
    assert sorted(p.name for p in folder.parent.iterdir()) == ["secret.txt", "work"]


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(path))


STRANGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "fifo": (os.mkfifo, "a pipe"),
    "socket": (make_socket, "socket"),
    "folder": (lambda path: path.mkdir(), "a folder"),
    "device": (lambda path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5)), "device"),
    "big.txt": (lambda path: path.write_bytes(b"x" * (LIMIT + 1)), "larger than 262,144 bytes (262,145)"),
    "latin1.txt": (lambda path: path.write_bytes(b"abc\xfc\n"), "not UTF-8 (at byte 3)"),
    "utf16.txt": (lambda path: path.write_bytes("abc".encode("utf-16")), "not UTF-8"),
    "surrogate.txt": (lambda path: path.write_bytes(b"\xed\xa0\x80"), "not UTF-8"),
    "nul.bin": (lambda path: path.write_bytes(b"ab\0cd"), "holds a NUL"),
    "x/file.txt": (lambda path: path.parent.write_text(""), "is a file"),
}


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("kind", ["read", "write"])
def test_what_is_no_text_file_of_a_bearable_size_is_refused(folder: Path, name: str, kind: str) -> None:
    if name == "device" and os.geteuid() != 0:
        pytest.skip("only root makes a device")
    make, reason = STRANGE[name]
    name = {"nul.bin": "zero.bin"}.get(name, name)
    make(folder / name)
    lists = ((name,), ()) if kind == "read" else ((), (name,))
    assert reason in reasons(folder, *lists)[name]


def test_a_file_of_exactly_the_limit_is_fine_and_the_limit_can_be_set(folder: Path) -> None:
    (folder / "big.txt").write_bytes(b"x" * LIMIT)
    assert len(read_files(folder, ["big.txt"]).read[0].data) == LIMIT
    assert "larger than 10 bytes" in reasons(folder, ("big.txt",), limits=Limits(max_bytes=10))["big.txt"]


@pytest.mark.parametrize(("limit", "reason"), [(LIMIT, "being written"), (10, "larger than 10 bytes")])
def test_a_file_that_is_written_while_it_is_read_is_refused(
    folder: Path, limit: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, growing, limits = os.read, ["once"], Limits(max_bytes=limit)

    def read(fd: int, size: int) -> bytes:
        data = real(fd, size)
        if growing:
            growing.clear()
            with (folder / "a.py").open("ab") as file:
                file.write(b"more")
        return data

    monkeypatch.setattr(os, "read", read)
    assert reason in reasons(folder, ("a.py",), limits=limits)["a.py"]


SWAPPED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link": (lambda path: path.symlink_to("../secret.txt"), "symbolic link"),
    "a pipe": (os.mkfifo, "was replaced"),
    "another file": (lambda path: path.write_text("other"), "was replaced"),
}


@pytest.mark.parametrize("kind", SWAPPED)
def test_a_file_that_is_swapped_between_two_looks_is_not_read(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    swap, reason = SWAPPED[kind]
    real = os.open

    def swapping(path: str, flags: int, *args: int, dir_fd: int | None = None) -> int:
        if path == "a.py":
            (folder / "a.py").rename(folder / "away")
            swap(folder / "a.py")
        return real(path, flags, *args, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", swapping)
        with pytest.raises(FilesRefused) as caught:
            read_files(folder, ["a.py"])
    assert reason in caught.value.reasons["a.py"]


def test_a_file_with_further_names_may_be_read_but_not_written(folder: Path) -> None:
    os.link(folder / "a.py", folder.parent / "elsewhere")
    assert read_files(folder, ["a.py"]).read[0].text == "one\ntwo\n"
    assert "2 names" in reasons(folder, write=("a.py",))["a.py"]


@pytest.mark.parametrize("mode", [0o444, 0o555, 0o400])
def test_a_write_protected_file_may_only_be_read_even_by_root(folder: Path, mode: int) -> None:
    (folder / "a.py").chmod(mode)
    assert read_files(folder, ["a.py"]).read
    assert "write-protected" in reasons(folder, write=("a.py",))["a.py"]


@pytest.mark.parametrize("mode", [0o4755, 0o2755])
def test_a_file_that_runs_with_the_rights_of_another_is_not_written(folder: Path, mode: int) -> None:
    (folder / "a.py").chmod(mode)
    assert "rights" in reasons(folder, write=("a.py",))["a.py"]


def test_a_new_file_that_differs_from_one_that_is_there_only_by_case_is_refused(folder: Path) -> None:
    (folder / "sub/Readme.MD").write_text("")
    assert "'Readme.MD'" in reasons(folder, write=("sub/README.md",))["sub/README.md"]
    assert read_files(folder, write=["sub/README2.md", "readme.md"]).write


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody reaches: the folders of pytest are closed to all but one."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def somebody_else() -> Generator[None]:
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else for a moment")
def test_what_this_person_may_not_read_or_write_is_refused(public: Path) -> None:
    names = ("theirs.txt", "unreadable.txt", "closed/x.txt", "stuck/x.txt", "sub/new.txt")
    for folder, mode in (("closed", 0o700), ("stuck", 0o755), ("sub", 0o755)):
        (public / folder).mkdir(mode=mode)
    for name in names[:4]:
        (public / name).write_text("x")
        os.chown(public / name, 65534, 65534)
    os.chown(public / "theirs.txt", 0, 0)
    (public / "theirs.txt").chmod(0o666)
    (public / "unreadable.txt").chmod(0o000)
    public.chmod(0o777)
    with somebody_else(), pytest.raises(FilesRefused) as caught:
        read_files(public, write=names)
    found = caught.value.reasons
    assert list(found) == list(names)
    assert "belongs to another" in found["theirs.txt"]
    assert "permission denied" in found["unreadable.txt"]
    assert "permission denied" in found["closed/x.txt"]
    assert found["stuck/x.txt"] == found["sub/new.txt"] == "nothing can be written in its folder"


PATTERNS = {
    ".env": ".env", "sub/.env.local": ".env.*", "deploy/PROD.pem": "*.pem", "id_rsa": "id_rsa*",
    "a/.ssh/config": ".ssh",
    ".docker/config.json": ".docker/config.json", "uv.lock": "*.lock", "web/package-lock.json": "*-lock.json",
    ".github/workflows/ci.yml": ".github/workflows", "x/.github/workflows/a/b.yml": ".github/workflows",
    ".Husky/pre-commit": ".husky", "AGENTS.md": "agents.md", ".gitattributes": ".gitattributes", "x.pth": "*.pth",
    "node_modules/a/b.js": "node_modules", "CodeOwners": "codeowners", ".vscode/tasks.json": ".vscode",
    "Package.resolved": "package.resolved", "Jenkinsfile": "jenkinsfile", "pnpm-lock.yaml": "*-lock.yaml",
    "\uff55\uff56.lock": "*.lock",
}  # fmt: skip
FREE = (
    ".env.example", "id_rsa.pub", "env", "env.py", "environment.ts", ".github/README.md", "workflows/ci.yml", "lock.py",
    "docker/config.json", "config.json", ".gitignore", "clock.py", "src/hooks.py", "keys.py", "README.md", "pem",
    "credentials.py",
)  # fmt: skip


@pytest.mark.parametrize("path", PATTERNS)
def test_a_protected_name_is_found_at_any_depth_and_in_any_case(path: str) -> None:
    assert protecting(path, (*SECRET, *PROTECTED)) == PATTERNS[path]


@pytest.mark.parametrize("path", FREE)
def test_an_ordinary_name_is_not_protected(path: str) -> None:
    assert protecting(path, (*SECRET, *PROTECTED)) is None


def test_a_secret_is_neither_read_nor_written_and_what_is_protected_only_read(folder: Path) -> None:
    for name in (".env", "uv.lock", "server.key"):
        (folder / name).write_text("x\n")
    assert read_files(folder, ["uv.lock"]).read[0].text == "x\n"
    found = reasons(folder, (".env",), ("server.key", "uv.lock"))
    assert "secret" in found[".env"]
    assert "'*.key'" in found["server.key"]
    assert "may only be read" in found["uv.lock"]


def test_the_lists_of_protected_names_can_be_set(folder: Path) -> None:
    (folder / ".env").write_text("x\n")
    limits = Limits(secret=(), protected=("a.py", "*.md", "!sub/*.md", "/"))
    assert read_files(folder, write=[".env", "sub/x.md"], limits=limits).write
    assert set(reasons(folder, write=("a.py", "x.md"), limits=limits)) == {"a.py", "x.md"}


@pytest.mark.parametrize("path", ["x.pub/.env", "id_rsa.pub/id_rsa", ".env.example/.env"])
def test_an_exception_is_of_the_file_itself_and_not_of_all_below_a_folder(path: str) -> None:
    assert protecting(path, SECRET) is not None
    assert protecting(".env.example", SECRET) is None
    assert protecting("keys/id_rsa.pub", SECRET) is None
