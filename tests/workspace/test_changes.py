"""What a run did is told apart from what was there before."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from changes_kit import after, before, changed, git, repository, rows, write

from subagent_workspace import _fingerprint  # pyright: ignore[reportPrivateUsage]
from subagent_workspace.snapshots import snapshot

pytestmark = pytest.mark.anyio
A, B, C, P, TEN = ("".join(f"{name} {number}\n" for number in range(10)) for name in "abcpt")


@pytest.fixture(autouse=True)
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person without a configuration."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return home


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo", {"a.py": A, "b.py": B, "c.py": C, "pkg/p.py": P})


async def test_a_run_that_does_nothing_has_changed_nothing_however_dirty_the_folder(repo: Path) -> None:
    write(repo, {"a.py": "mine\n", "new": "mine\n", "b.py": B + "staged\n"})
    git(repo, "add", "b.py")
    (repo / "c.py").unlink()
    changes = await changed(repo, lambda: None)
    assert (changes.files, changes.commits, changes.head_moved, changes.unseen) == ((), (), False, ())
    assert changes.root == str(repo)


async def test_what_the_person_had_changed_counts_only_where_the_run_touched_it(repo: Path) -> None:
    write(repo, {"a.py": A + "mine\n", "b.py": B + "mine\n", "note": "mine\n", "kept": "mine\n"})

    def run() -> None:
        write(repo, {"a.py": "first\n" + A + "mine\n", "note": "mine\nits\n", "c.py": C + "x\ny\n"})

    assert rows(await changed(repo, run)) == {
        "a.py": "modified +1 -0",
        "c.py": "modified +2 -0",
        "note": "modified +1 -0",
    }


async def test_a_persons_change_that_the_run_undid_counts(repo: Path) -> None:
    write(repo, {"a.py": A + "mine\n", "note": "mine\n"})
    (repo / "b.py").unlink()

    def run() -> None:
        git(repo, "checkout", "-q", "a.py", "b.py")
        (repo / "note").unlink()

    assert rows(await changed(repo, run)) == {
        "a.py": "modified +0 -1",
        "b.py": "added +10 -0",
        "note": "deleted +0 -1",
    }


async def test_added_deleted_renamed_and_changed_in_kind(repo: Path) -> None:
    def run() -> None:
        write(repo, {"new.py": "1\n2\n", "deep/er/x": "no end"})
        (repo / "a.py").unlink()
        (repo / "b.py").rename(repo / "renamed.py")
        (repo / "c.py").chmod(0o755)
        (repo / "pkg/p.py").unlink()
        (repo / "pkg/p.py").symlink_to("../c.py")

    assert rows(await changed(repo, run)) == {
        "a.py": "deleted +0 -10",
        "c.py": "modified +0 -0",
        "deep/er/x": "added +1 -0",
        "new.py": "added +2 -0",
        "pkg/p.py": "modified +1 -10",
        "renamed.py": "renamed +0 -0 from b.py",
    }


async def test_what_is_no_text_has_no_lines(repo: Path) -> None:
    (repo / "old.bin").write_bytes(b"\0\1")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "binary")
    (repo / "mine.bin").write_bytes(b"\0mine")

    def run() -> None:
        for name in ("old.bin", "mine.bin", "new.bin"):
            (repo / name).write_bytes(b"\0its")

    assert rows(await changed(repo, run)) == {"mine.bin": "modified", "new.bin": "added", "old.bin": "modified"}


async def test_staging_and_unstaging_alone_is_no_change(repo: Path) -> None:
    write(repo, {"a.py": "mine\n", "note": "mine\n", "b.py": "staged\n"})
    git(repo, "add", "b.py")

    def run() -> None:
        git(repo, "add", "a.py", "note")
        git(repo, "reset", "-q", "b.py")
        git(repo, "rm", "-q", "--cached", "c.py")
        write(repo, {"pkg/p.py": "for a moment\n"})
        git(repo, "add", "pkg/p.py")
        write(repo, {"pkg/p.py": P, "gone": "x"})
        git(repo, "add", "gone")
        (repo / "gone").unlink()

    assert rows(await changed(repo, run)) == {}


async def test_of_a_file_that_left_the_index_no_lines_are_told(repo: Path) -> None:
    def run() -> None:
        git(repo, "rm", "-q", "--cached", "a.py")
        write(repo, {"a.py": A + "its\n"})

    assert rows(await changed(repo, run)) == {"a.py": "modified"}


async def test_a_reset_that_keeps_the_files_moves_head_and_changes_none(repo: Path) -> None:
    write(repo, {"a.py": "second\n"})
    git(repo, "commit", "-qam", "second")
    changes = await changed(repo, lambda: git(repo, "reset", "-q", "--soft", "HEAD~1"))
    assert (changes.files, changes.commits, changes.head_moved) == ((), (), True)


async def test_commits_of_the_run_are_told_and_their_files_too(repo: Path) -> None:
    write(repo, {"mine.py": "mine\n"})

    def run() -> None:
        write(repo, {"a.py": A + "its\n"})
        git(repo, "commit", "-qam", "Edit a\n\nat length")
        write(repo, {"b.py": B + "its\n"})
        git(repo, "mv", "c.py", "d.py")
        write(repo, {"d.py": C.replace("c 3", "changed")})
        git(repo, "add", "d.py")
        git(repo, "commit", "-qm", "mövé\tc")
        git(repo, "add", "mine.py")
        git(repo, "commit", "-qm", "what was not mine")

    changes = await changed(repo, run)
    assert rows(changes) == {
        "a.py": "modified +1 -0 *",
        "b.py": "modified +1 -0",
        "d.py": "renamed +1 -1 from c.py *",
        "mine.py": "modified +0 -0 *",
    }
    assert [commit.subject for commit in changes.commits] == ["what was not mine", "mövé\tc", "Edit a"]
    assert changes.commits[0].id == git(repo, "rev-parse", "HEAD")
    assert (changes.more_commits, changes.head_moved, changes.unseen) == (0, False, ())


async def test_a_file_that_was_committed_and_then_changed_back_counts(repo: Path) -> None:
    def run() -> None:
        write(repo, {"a.py": A + "its\n"})
        git(repo, "commit", "-qam", "its")
        write(repo, {"a.py": A})

    assert rows(await changed(repo, run)) == {"a.py": "modified +0 -0 *"}


async def test_a_rename_that_is_only_staged_is_one_with_its_edit(repo: Path) -> None:
    def run() -> None:
        git(repo, "mv", "a.py", "z.py")
        write(repo, {"z.py": A + "its\n"})
        git(repo, "mv", "pkg/p.py", "pkg/q.py")

    assert rows(await changed(repo, run)) == {
        "pkg/q.py": "renamed +0 -0 from pkg/p.py",
        "z.py": "renamed +1 -0 from a.py",
    }


async def test_a_rename_that_was_only_announced_is_one_with_its_edit(repo: Path) -> None:
    def run() -> None:
        (repo / "a.py").rename(repo / "z.py")
        write(repo, {"z.py": A + "its\n"})
        git(repo, "add", "-N", "z.py")

    assert rows(await changed(repo, run)) == {"z.py": "renamed +1 -0 from a.py"}


async def test_lines_that_git_cannot_count_are_none(repo: Path) -> None:
    blob = git(repo, "rev-parse", "HEAD:a.py")
    seen = await before(repo)
    (repo / ".git/objects" / blob[:2] / blob[2:]).unlink()
    write(repo, {"a.py": "its\n"})
    changes = await after(seen)
    assert rows(changes) == {"a.py": "modified"}
    assert changes.unseen[0].startswith("lines were not counted: git diff: ")


async def test_what_is_long_or_much_has_no_lines(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repo, {"a.py": "mine\n" * 300_000})

    def run() -> None:
        write(repo, {"long": "x\n" * 700_000, "short": "x\n", "a.py": "mine\n" * 300_001})

    # Git could count the lines of a.py, but from what it was before the person changed it.
    expected = {"a.py": "modified", "long": "added", "short": "added +1 -0"}
    assert rows(await changed(repo, run)) == expected
    (repo / "long").unlink()
    monkeypatch.setattr(_fingerprint, "_LINES", 5)
    assert rows(await changed(repo, lambda: write(repo, {"s2": "1\n2\n3\n4\n5\n"}))) == {"s2": "added"}


async def test_a_chain_of_renames_leads_to_the_first_name(repo: Path) -> None:
    def run() -> None:
        git(repo, "mv", "a.py", "b2.py")
        git(repo, "commit", "-qm", "once")
        write(repo, {"b2.py": A + "its\n"})
        git(repo, "mv", "b2.py", "c2.py")
        git(repo, "add", "c2.py")

    assert rows(await changed(repo, run)) == {"c2.py": "renamed +1 -0 from a.py *"}


@pytest.mark.parametrize("options", [(), ("--object-format=sha256",)])
async def test_a_repository_without_a_commit_gets_its_first(tmp_path: Path, options: tuple[str, ...]) -> None:
    repo = repository(tmp_path / "new", None, *options)
    write(repo, {"staged": "1\n", "untracked": "1\n", "kept": "1\n"})
    git(repo, "add", "staged")
    write(repo, {"staged": "1\n2\n"})

    def run() -> None:
        write(repo, {"its": "1\n", "untracked": "1\n2\n"})
        git(repo, "add", "staged", "its", "untracked")
        git(repo, "commit", "-qm", "first")

    changes = await changed(repo, run)
    assert rows(changes) == {
        "its": "added +1 -0 *",
        "staged": "modified +0 -0 *",
        "untracked": "modified +1 -0 *",
    }
    assert ([commit.subject for commit in changes.commits], changes.head_moved) == (["first"], False)


async def test_an_orphan_branch_and_a_checkout_say_that_head_moved(repo: Path) -> None:
    git(repo, "checkout", "-qb", "other")
    old = {"GIT_COMMITTER_DATE": "2001-01-01T00:00:00Z"}
    write(repo, {"a.py": "other\n"})
    git(repo, "commit", "-qam", "other", env=old)
    git(repo, "checkout", "-q", "main")
    seen = await before(repo)
    git(repo, "checkout", "-q", "other")
    changes = await after(seen)
    assert (rows(changes), changes.commits, changes.head_moved) == ({"a.py": "modified +1 -10"}, (), True)
    git(repo, "checkout", "-q", "main")
    git(repo, "checkout", "-q", "--orphan", "nothing")
    changes = await after(seen)
    assert (rows(changes), changes.commits, changes.head_moved) == ({}, (), True)


async def test_an_amended_commit_is_the_runs_and_moves_head(repo: Path) -> None:
    def run() -> None:
        write(repo, {"a.py": A + "its\n"})
        git(repo, "commit", "-qa", "--amend", "-m", "amended")

    changes = await changed(repo, run)
    assert (rows(changes), changes.head_moved) == ({"a.py": "modified +1 -0 *"}, True)
    assert [commit.subject for commit in changes.commits] == ["amended"]


async def test_at_most_200_files_and_20_commits_are_listed_and_the_rest_is_counted(repo: Path) -> None:
    def run() -> None:
        write(repo, {f"many/{number:03}": "x\n" for number in range(250)})
        for number in range(23):
            git(repo, "commit", "-q", "--allow-empty", "-m", f"number {number}")

    changes = await changed(repo, run)
    assert (len(changes.files), changes.more, len(changes.commits), changes.more_commits) == (200, 50, 20, 3)
    assert set(rows(changes).values()) == {"added +1 -0"}
    assert changes.commits[0].subject == "number 22"


NAMES = ["my notes.md", "café.md", '"q".txt', " lead.txt", "q -> r.txt", "tab\tin", "line\nend", "-n", ":(top)x", "a*"]


async def test_names_are_exact_whatever_they_hold(repo: Path) -> None:
    write(repo, {f"old/{name}": TEN for name in NAMES})
    raw = os.fsencode(repo) + b"/old/\xff\xfe"
    Path(os.fsdecode(raw)).write_bytes(b"x\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "names")
    odd = f"old/{os.fsdecode(bytes([255, 254]))}"

    def run() -> None:
        write(repo, {f"old/{name}": TEN + "its\n" for name in NAMES})
        write(repo, {f"new/{name}": name for name in NAMES})
        Path(os.fsdecode(raw)).write_bytes(b"x\ny\n")

    changes = await changed(repo, run)
    expected = {f"old/{name}": "modified +1 -0" for name in NAMES} | {odd: "modified +1 -0"}
    expected |= {f"new/{name}": f"added +{1 + name.count(chr(10))} -0" for name in NAMES}
    assert rows(changes) == expected
    assert changes.unseen == ()

    def commit() -> None:
        git(repo, "add", ".")
        git(repo, "commit", "-qm", "its")
        for name in NAMES:
            git(repo, "mv", f"./old/{name}", f"./moved-{name.replace('/', '')}")

    expected = {f"moved-{name}": f"renamed +0 -0 from old/{name}" for name in NAMES}
    told = rows(await changed(repo, commit))
    assert {path: row.removesuffix(" *") for path, row in told.items() if path.startswith("moved-")} == expected


async def test_paths_are_told_from_the_folder_of_the_task(repo: Path) -> None:
    write(repo, {"pkg/sub/s": "1\n", "pkgs/near": "1\n"})

    def run() -> None:
        write(repo, {"pkg/p.py": "x\n", "pkg/new/b": "x\n", "other/c": "x\n", "pkgs/near": "2\n"})
        git(repo, "mv", "a.py", "pkg/sub/a.py")

    changes = await changed(repo / "pkg" / "sub", run)
    assert rows(changes) == {
        "../new/b": "added +1 -0",
        "../p.py": "modified +1 -10",
        "../../other/c": "added +1 -0",
        "../../pkgs/near": "modified +1 -1",
        "a.py": "renamed +0 -0 from ../../a.py",
    }
    assert changes.root == str(repo)


async def test_a_working_folder_that_became_a_file_has_a_path_from_itself(repo: Path) -> None:
    def run() -> None:
        (repo / "pkg/p.py").unlink()
        (repo / "pkg").rmdir()
        write(repo, {"pkg": "its\n"})

    assert rows(await changed(repo / "pkg", run)) == {"../pkg": "added +1 -0", "p.py": "deleted +0 -10"}


async def test_a_working_folder_that_is_reached_through_a_link_is_the_one_behind_it(repo: Path) -> None:
    (repo.parent / "link").symlink_to(repo)
    assert rows(await changed(repo.parent / "link", lambda: write(repo, {"x": "1\n"}))) == {"x": "added +1 -0"}


async def test_a_folder_that_became_a_link_leads_nowhere(repo: Path) -> None:
    outside = repo.parent / "outside"
    write(outside, {"note": "mine\n"})
    write(repo, {"own/note": "mine\n"})

    def run() -> None:
        (repo / "own/note").unlink()
        (repo / "own").rmdir()
        (repo / "own").symlink_to(outside)

    assert rows(await changed(repo, run)) == {"own": "added +1 -0", "own/note": "deleted +0 -1"}


async def test_what_is_changed_is_what_the_persons_own_settings_say(tmp_path: Path, person: Path) -> None:
    (person / ".gitconfig").write_text("[core]\n\tautocrlf = true\n\texcludesFile = ~/ignored\n")
    (person / "ignored").write_text("*.log\n")
    repo = repository(tmp_path / "repo", {"a.py": A, "b.py": B, "c.py": C})

    def run() -> None:
        (repo / "a.py").write_bytes(A.replace("\n", "\r\n").encode())
        (repo / "b.py").write_bytes(B.replace("\n", "\r\n").encode() + b"its\r\n")
        write(repo, {"x.log": "ignored\n", "x.txt": "told\n"})

    expected = {"b.py": "modified +1 -0", "x.txt": "added +1 -0"}
    assert rows(await changed(repo, run)) == expected
    assert "a.py" in git(repo, "status", "--short", home=person)  # git status looks at sizes first


async def test_a_conflict_that_the_run_left_is_told(repo: Path) -> None:
    git(repo, "checkout", "-qb", "other")
    write(repo, {"a.py": "other\n"})
    git(repo, "commit", "-qam", "other")
    git(repo, "checkout", "-q", "main")
    write(repo, {"a.py": "main\n"})
    git(repo, "commit", "-qam", "main")
    seen = await before(repo)
    with pytest.raises(Exception, match="merge"):
        git(repo, "merge", "-q", "other")
    changes = await after(seen)
    assert {path: row.split()[0] for path, row in rows(changes).items()} == {"a.py": "modified"}
    assert await changed(repo, lambda: None) == changes.__class__(root=str(repo))


async def test_a_folder_without_git_has_no_snapshot_unless_contents_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()  # as a sandbox leaves it
    assert await snapshot(tmp_path) is None
    assert await snapshot("/dev") is None  # nothing of git above it either
    assert await snapshot(tmp_path, content=True) is not None


@pytest.mark.parametrize("ahead", [0, 100])
async def test_what_is_ignored_no_longer_is_the_runs_only_where_the_run_made_it(
    ahead: int, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repo, {".gitignore": "secret.env\nout/\n", "secret.env": "person\n", "out/x": "x\n"})
    git(repo, "add", ".gitignore")
    git(repo, "commit", "-q", "-m", "ignore")
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + ahead)  # as if it was all there long before
    seen = await before(repo)
    monkeypatch.undo()
    write(repo, {".gitignore": "\n"})
    found = await after(seen)
    told = [file.path for file in found.files]
    assert told == ([".gitignore"] if ahead else [".gitignore", "out/x", "secret.env"])
    assert any("are ignored no longer" in note for note in found.unseen) == bool(ahead)
