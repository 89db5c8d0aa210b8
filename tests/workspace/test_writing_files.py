"""Files replaced: modes, owners and attributes (case 8-04), links (8-02, 4-06), and files that change meanwhile."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

from subagent_workspace import _rename
from subagent_workspace.errors import FilesRefused, FolderUnusable, PathsRefused, WriteFailed
from subagent_workspace.reading import TextFile, read_files
from subagent_workspace.writing import Rewrite, write_files

P = ParamSpec("P")
R = TypeVar("R")

ACL = "system.posix_acl_access"


@contextmanager
def umask(mask: int) -> Generator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def files(folder: Path, *names: str) -> tuple[TextFile, ...]:
    return read_files(folder, write=names).write


def rewrite(folder: Path, name: str, text: str = "new\n") -> None:
    write_files(folder, [Rewrite(files(folder, name)[0], text)])


def after(act: Callable[[], object], function: Callable[P, R]) -> Callable[P, R]:
    """The function, with something that happens just before it."""

    def call(*args: P.args, **options: P.kwargs) -> R:
        act()
        return function(*args, **options)

    return call


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("old", [0o755, 0o644, 0o600, 0o640, 0o664, 0o666, 0o711])
def test_the_mode_is_kept_and_the_file_is_never_more_open_on_the_way(
    tmp_path: Path, old: int, mask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.sh"
    path.write_text("old\n")
    path.chmod(old)
    seen: set[int] = set()

    def look() -> None:
        seen.update(mode(p) for p in tmp_path.glob(".subagents-*"))

    (file,) = files(tmp_path, "run.sh")
    with umask(mask), monkeypatch.context() as patch:
        for name in ("write", "fsync", "fchmod", "fchown", "close", "listxattr", "unlink"):
            patch.setattr(os, name, after(look, getattr(os, name)))
        write_files(tmp_path, [Rewrite(file, "new\n")])
    assert (path.read_text(), mode(path)) == ("new\n", old)
    assert seen
    assert all(m & ~old == 0 for m in seen)


@pytest.mark.parametrize(("mask", "expected"), [(0o000, 0o666), (0o022, 0o644), (0o077, 0o600)])
def test_a_new_file_has_the_mode_of_any_new_file(tmp_path: Path, mask: int, expected: int) -> None:
    with umask(mask):
        rewrite(tmp_path, "new.py")
    assert mode(tmp_path / "new.py") == expected
    assert os.listdir(tmp_path) == ["new.py"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owner_and_group_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old\n")
    path.chmod(0o640)
    os.chown(path, 1234, 4321)
    rewrite(tmp_path, "a")
    st = path.stat()
    assert (path.read_text(), st.st_uid, st.st_gid, mode(path)) == ("new\n", 1234, 4321, 0o640)


def acl(*entries: tuple[int, int, int]) -> bytes:
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


NOBODY = 0xFFFFFFFF
READ_BY_1234 = acl((1, 6, NOBODY), (2, 4, 1234), (4, 0, NOBODY), (0x10, 4, NOBODY), (0x20, 0, NOBODY))


def set_attribute(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as exc:
        pytest.skip(f"this file system keeps no {name}: {exc.strerror}")


def test_attributes_and_the_access_list_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old\n")
    set_attribute(path, "user.origin", b"here")
    set_attribute(path, ACL, READ_BY_1234)
    before = mode(path)
    rewrite(tmp_path, "a")
    assert path.read_text() == "new\n"
    assert os.getxattr(path, "user.origin") == b"here"
    assert os.getxattr(path, ACL) == READ_BY_1234
    assert mode(path) == before


def test_the_default_access_list_of_the_folder_does_not_open_a_file_that_had_none(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old\n")
    path.chmod(0o600)
    set_attribute(tmp_path, "system.posix_acl_default", READ_BY_1234)
    rewrite(tmp_path, "a")
    assert ACL not in os.listxattr(path)
    assert mode(path) == 0o600


def test_several_files_are_replaced_and_told_in_order(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b", "sub/a", "c"):
        (tmp_path / name).write_text("old\n")
    before = (tmp_path / "c").stat()
    b, new, a, c = files(tmp_path, "b", "sub/new", "sub/a", "c")
    done = write_files(tmp_path, [Rewrite(a, "A\n"), Rewrite(c, "old\n"), Rewrite(new, "N\n"), Rewrite(b, "B\n")])
    assert [(w.path, w.status) for w in done] == [
        ("sub/a", "modified"), ("c", "unchanged"), ("sub/new", "added"), ("b", "modified"),
    ]  # fmt: skip
    assert [(tmp_path / name).read_text() for name in ("b", "sub/a", "sub/new", "c")] == ["B\n", "A\n", "N\n", "old\n"]
    assert (tmp_path / "c").stat() == before
    assert sorted(os.listdir(tmp_path) + os.listdir(tmp_path / "sub")) == ["a", "b", "c", "new", "sub"]


def test_the_folder_may_be_reached_through_a_link_for_both_calls(tmp_path: Path) -> None:
    (tmp_path / "real/src").mkdir(parents=True)
    (tmp_path / "real/src/a.py").write_text("old\n")
    (tmp_path / "w").symlink_to("real")
    (file,) = files(tmp_path / "w", "src/a.py")
    (done,) = write_files(tmp_path / "real", [Rewrite(file, "new\n")])
    assert done.path == "src/a.py"
    assert (tmp_path / "real/src/a.py").read_text() == "new\n"


def test_descriptors_are_all_closed_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old\n")
    before = len(os.listdir("/proc/self/fd"))
    for k in range(5):
        a, new = files(tmp_path, "a", f"new{k}")
        write_files(tmp_path, [Rewrite(a, f"{k}\n"), Rewrite(new, "x\n")])
        with pytest.raises(FilesRefused):
            write_files(tmp_path, [Rewrite(a, "late\n"), Rewrite(new, "late\n")])
    assert len(os.listdir("/proc/self/fd")) == before


def save_in_place(path: Path) -> None:
    st = path.stat()
    path.write_text("OLD\n")  # as long as before, and with its time put back: only the bytes tell
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))


def save_by_rename(path: Path) -> None:
    (path.parent / "editor").write_text("theirs\n")
    (path.parent / "editor").rename(path)


def make_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("../outside")


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGES: dict[str, Callable[[Path], object]] = {
    "written in place": save_in_place,
    "saved by an editor": save_by_rename,
    "removed": lambda path: path.unlink(),
    "made a link": make_link,
    "made a folder": make_folder,
    "made more open": lambda path: path.chmod(0o666),
    "given another name": lambda path: os.link(path, path.parent / "name2"),
    "its folder made a link": lambda path: (
        path.parent.rename(path.parent.parent / "away"), path.parent.symlink_to("away"),
    ),
    "its folder replaced": lambda path: (
        path.parent.rename(path.parent.parent / "away"), path.parent.mkdir(), path.write_text("old\n"),
    ),
}  # fmt: skip


def state(folder: Path) -> dict[str, object]:
    """All that stands in and beside the folder, but for files of ours."""
    return {
        str(p.relative_to(folder.parent)): os.readlink(p) if p.is_symlink() else p.read_text() if p.is_file() else None
        for p in sorted(folder.parent.rglob("*"))
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    for name in ("first", "sub/file"):
        (folder / name).write_text("old\n")
    (tmp_path / "outside").write_text("outside\n")
    return folder


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changed_since_it_was_read_stops_all(folder: Path, change: str) -> None:
    first, file = files(folder, "first", "sub/file")
    CHANGES[change](folder / "sub/file")
    before = state(folder)
    with pytest.raises((FilesRefused, WriteFailed)) as caught:
        write_files(folder, [Rewrite(first, "new\n"), Rewrite(file, "new\n")])
    told = caught.value.reasons if isinstance(caught.value, FilesRefused) else caught.value.not_written
    assert told["sub/file"]
    assert state(folder) == before


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_after_the_first_check_is_left_and_told_with_what_was_written(
    folder: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, file, last = files(folder, "first", "sub/file", "last")
    before: dict[str, object] = {}
    real = _rename.exchange

    def after_the_first(parent: int, new: str, old: str) -> bool:
        done = real(parent, new, old)
        if not before:
            CHANGES[change](folder / "sub/file")
            before.update(state(folder))
        return done

    monkeypatch.setattr("subagent_workspace._replace.exchange", after_the_first)
    with pytest.raises(WriteFailed) as caught:
        write_files(folder, [Rewrite(first, "new\n"), Rewrite(file, "new\n"), Rewrite(last, "new\n")])
    failed = caught.value
    assert [w.path for w in failed.written] == ["first"]
    assert set(failed.not_written) == {"sub/file", "last"}
    assert "not tried" in failed.not_written["last"]
    assert failed.unknown == {}
    assert all(name in str(failed) for name in ("'first'", "'sub/file'", "'last'"))
    expected = {name: text for name, text in before.items() if ".subagents-" not in name}
    assert state(folder) == expected


IN_THE_LAST_MOMENT = (
    "written in place",
    "saved by an editor",
    "removed",
    "made a link",
    "made a folder",
    "made more open",
)


@pytest.mark.parametrize("change", IN_THE_LAST_MOMENT)
def test_what_somebody_saves_in_the_very_moment_of_the_exchange_is_put_back(
    folder: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = files(folder, "sub/file")
    expected: dict[str, object] = {}
    real = _rename.exchange

    def just_before(parent: int, new: str, old: str) -> bool:
        if not expected:
            CHANGES[change](folder / "sub/file")
            expected.update({n: t for n, t in state(folder).items() if ".subagents-" not in n})
        return real(parent, new, old)

    monkeypatch.setattr("subagent_workspace._replace.exchange", just_before)
    with pytest.raises(WriteFailed) as caught:
        write_files(folder, [Rewrite(file, "new\n")])
    assert set(caught.value.not_written) == {"sub/file"}
    assert state(folder) == expected


def test_what_cannot_be_put_back_is_kept_beside_and_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = files(folder, "sub/file")
    real, calls = _rename.exchange, [0]

    def failing_back(parent: int, new: str, old: str) -> bool:
        calls[0] += 1
        if calls[0] == 2:
            raise OSError(5, "Input/output error")
        save_by_rename(folder / "sub/file")
        return real(parent, new, old)

    monkeypatch.setattr("subagent_workspace._replace.exchange", failing_back)
    with pytest.raises(WriteFailed) as caught:
        write_files(folder, [Rewrite(file, "new\n")])
    (left,) = [p for p in (folder / "sub").iterdir() if p.name != "file"]
    assert left.name in caught.value.unknown["sub/file"]
    assert (left.read_text(), (folder / "sub/file").read_text()) == ("theirs\n", "new\n")


def test_what_changes_again_while_it_is_put_back_is_kept_beside_and_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = files(folder, "sub/file")
    real = _rename.exchange

    def saving_each_time(parent: int, new: str, old: str) -> bool:
        save_by_rename(folder / "sub/file")
        return real(parent, new, old)

    monkeypatch.setattr("subagent_workspace._replace.exchange", saving_each_time)
    with pytest.raises(WriteFailed) as caught:
        write_files(folder, [Rewrite(file, "new\n")])
    (left,) = [p for p in (folder / "sub").iterdir() if p.name != "file"]
    assert left.name in caught.value.unknown["sub/file"]
    assert (left.read_text(), (folder / "sub/file").read_text()) == ("theirs\n", "theirs\n")


@pytest.mark.parametrize("moment", ["before", "between", "last"])
def test_a_new_file_never_replaces_one_that_somebody_made_meanwhile(
    folder: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, new = files(folder, "first", "sub/new")
    theirs = folder / "sub/new"

    def make() -> None:
        theirs.write_text("theirs\n")

    if moment == "before":
        make()
    else:
        step = "exchange" if moment == "between" else "place"
        monkeypatch.setattr(f"subagent_workspace._replace.{step}", after(make, getattr(_rename, step)))
    with pytest.raises((FilesRefused, WriteFailed)) as caught:
        write_files(folder, [Rewrite(first, "new\n"), Rewrite(new, "ours\n")])
    assert theirs.read_text() == "theirs\n"
    assert (folder / "first").read_text() == ("old\n" if moment == "before" else "new\n")
    assert sorted(os.listdir(folder / "sub")) == ["file", "new"]
    assert "'sub/new'" in str(caught.value)


def test_two_writers_at_once_never_lose_a_change_untold(folder: Path) -> None:
    """Each adds a line to what it read, and tries again when it is refused: every line must be there in the end."""
    path = folder / "first"
    path.write_text("")

    def add(line: str) -> None:
        while True:
            with suppress(FilesRefused, WriteFailed):
                (file,) = files(folder, "first")
                write_files(folder, [Rewrite(file, f"{file.text}{line}\n")])
                return

    def writer(name: str) -> None:
        for k in range(25):
            add(f"{name}{k}")

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(writer, name) for name in "ab"]:
            done.result(60)
    assert sorted(path.read_text().split()) == sorted(f"{name}{k}" for name in "ab" for k in range(25))
    assert sorted(os.listdir(folder)) == ["first", "sub"]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that can neither exchange two names nor place one only where there is none."""
    monkeypatch.setattr(_rename, "_renameat2", lambda: None)


@pytest.mark.usefixtures("plain")
def test_without_an_exchange_the_plain_forms_do_the_same(folder: Path) -> None:
    file, new = files(folder, "sub/file", "sub/new")
    (folder / "sub/file").chmod(0o640)
    with pytest.raises(FilesRefused):
        write_files(folder, [Rewrite(file, "new\n")])
    file, new = files(folder, "sub/file", "sub/new")
    write_files(folder, [Rewrite(file, "new\n"), Rewrite(new, "made\n")])
    assert ((folder / "sub/file").read_text(), (folder / "sub/new").read_text()) == ("new\n", "made\n")
    assert mode(folder / "sub/file") == 0o640
    assert sorted(os.listdir(folder / "sub")) == ["file", "new"]


@pytest.mark.usefixtures("plain")
def test_without_an_exchange_a_new_file_still_replaces_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (new,) = files(folder, "sub/new")
    monkeypatch.setattr(os, "link", after(lambda: (folder / "sub/new").write_text("theirs\n"), os.link))
    with pytest.raises(WriteFailed):
        write_files(folder, [Rewrite(new, "ours\n")])
    assert (folder / "sub/new").read_text() == "theirs\n"
    assert sorted(os.listdir(folder / "sub")) == ["file", "new"]


def test_files_of_another_folder_are_refused(folder: Path, tmp_path: Path) -> None:
    (file,) = files(folder, "first")
    other = tmp_path / "other"
    other.mkdir()
    (other / "first").write_text("old\n")
    with pytest.raises(FilesRefused, match="another folder"):
        write_files(other, [Rewrite(file, "new\n")])
    with pytest.raises(FolderUnusable):
        write_files(tmp_path / "none", [Rewrite(file, "new\n")])


def test_the_same_file_twice_is_refused(folder: Path) -> None:
    (file,) = files(folder, "first")
    with pytest.raises(PathsRefused, match="named twice"):
        write_files(folder, [Rewrite(file, "one\n"), Rewrite(file, "two\n")])
    assert (folder / "first").read_text() == "old\n"


def test_nothing_to_write_is_nothing_done(folder: Path) -> None:
    before = state(folder)
    assert write_files(folder, []) == ()
    assert state(folder) == before
