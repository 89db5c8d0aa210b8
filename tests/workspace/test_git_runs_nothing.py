"""Nothing that a repository names is run: first plain git is seen to run it, then ours never does."""

from __future__ import annotations

import itertools
import os
import pty
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from changes_kit import BOUND, Marker, after, before, git, repository, rows, write

pytestmark = pytest.mark.anyio
_SIGNS = """cat > /dev/null; echo "[GNUPG:] SIG_CREATED " >&2; echo "-----BEGIN PGP SIGNATURE-----
-----END PGP SIGNATURE-----"
"""
_ODD = "a=b.c"  # a driver's name that `git -c` could not be given


@dataclass
class Trap:
    """A repository with a program in it, and what plain git does to run it."""

    repo: Path
    home: Path
    marker: Marker
    times: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def config(self, key: str, value: str) -> None:
        git(self.repo, "config", key, value, home=self.home)

    def touch(self, name: str = "a.txt") -> None:
        """Its time is another, so that git has to read it."""
        time = next(self.times)
        os.utime(self.repo / name, (time, time))

    def plain(self, *arguments: str, stdin: str = "") -> set[str]:
        """What plain git runs."""
        env = {"PATH": os.defpath, "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1", "TERM": "dumb"}
        argv = ["git", *arguments]
        subprocess.run(argv, cwd=self.repo, env=env, capture_output=True, timeout=BOUND, text=True, input=stdin)
        return self.marker.taken()

    def on_a_terminal(self, *arguments: str) -> set[str]:
        """What plain git runs when a person looks at it."""
        ours, theirs = pty.openpty()
        env = {"PATH": os.defpath, "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1", "TERM": "xterm"}
        try:
            subprocess.run(["git", *arguments], cwd=self.repo, env=env, stdout=theirs, timeout=BOUND)
        finally:
            os.close(theirs)
            os.close(ours)
        return self.marker.taken()


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trap:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = T\n\temail = t@x\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    files = {"a.txt": "one\n", "b.txt": "two\n", ".gitattributes": ""}
    return Trap(repository(tmp_path / "repo", files), home, Marker(tmp_path))


def fsmonitor(trap: Trap) -> set[str]:
    trap.config("core.fsmonitor", trap.marker.program("fsmonitor"))
    return trap.plain("status")


def included(trap: Trap) -> set[str]:
    """From a file that only this repository's place brings in."""
    other = trap.repo.parent / "included"
    other.write_text(f"[core]\n\tfsmonitor = {trap.marker.program('included')}\n")
    trap.config(f"includeIf.gitdir:{trap.repo}/.path", str(other))
    return trap.plain("status")


def of_the_worktree(trap: Trap) -> set[str]:
    trap.config("extensions.worktreeConfig", "true")
    (trap.repo / ".git/config.worktree").write_text(f"[core]\n\tfsmonitor = {trap.marker.program('worktree')}\n")
    return trap.plain("status")


def clean(trap: Trap) -> set[str]:
    trap.config("filter.plain.clean", trap.marker.program("clean"))
    trap.config("filter.plain.required", "true")
    trap.config(f"filter.{_ODD}.clean", trap.marker.program("odd"))
    trap.config(f"filter.{_ODD}.required", "true")
    (trap.repo / ".gitattributes").write_text(f"a.txt filter={_ODD}\nb.txt filter=plain\n")
    trap.touch()
    trap.touch("b.txt")
    return trap.plain("status")


def process(trap: Trap) -> set[str]:
    trap.config("filter.p.process", trap.marker.program("process", "exit 1"))
    trap.config("filter.p.required", "true")
    (trap.repo / ".gitattributes").write_text("*.txt filter=p\n")
    trap.touch()
    return trap.plain("status")


def of_the_person(trap: Trap) -> set[str]:
    """A driver of the person's own, which the repository's attributes choose."""
    git(trap.repo, "config", "--global", "filter.p.clean", trap.marker.program("person"), home=trap.home)
    (trap.repo / ".git/info/attributes").write_text("*.txt filter=p\n")
    trap.touch()
    return trap.plain("status")


def textconv_and_external_diff(trap: Trap) -> set[str]:
    trap.config("diff.t.textconv", trap.marker.program("textconv"))
    trap.config("diff.x.command", trap.marker.program("external"))
    (trap.repo / ".gitattributes").write_text("a.txt diff=t\nb.txt diff=x\n")
    write(trap.repo, {"a.txt": "changed\n", "b.txt": "changed\n"})
    ran = trap.plain("diff")
    trap.config("diff.external", trap.marker.program("every"))
    ran |= trap.plain("diff", "a.txt")
    git(trap.repo, "checkout", "-q", "a.txt", "b.txt", home=trap.home)
    return ran


def hooks(trap: Trap) -> set[str]:
    """One that a look at the index runs when it writes it; in the usual place and in another."""
    usual = trap.repo / ".git/hooks/post-index-change"
    usual.parent.mkdir(exist_ok=True)
    usual.symlink_to(trap.marker.program("usual"))
    trap.touch()
    ran = trap.plain("status")
    folder = trap.repo.parent / "hooks"
    folder.mkdir()
    (folder / "post-index-change").symlink_to(trap.marker.program("chosen"))
    trap.config("core.hooksPath", str(folder))
    trap.touch()
    ran |= trap.plain("status")
    trap.touch()
    return ran


def signature(trap: Trap) -> set[str]:
    trap.config("gpg.program", trap.marker.program("gpg", _SIGNS))
    git(trap.repo, "commit", "-q", "-S", "--allow-empty", "-m", "signed", home=trap.home)
    trap.marker.taken()
    trap.config("log.showSignature", "true")
    trap.config("commit.gpgSign", "true")
    return trap.plain("log", "-1")


def pager_alias_editor_askpass(trap: Trap) -> set[str]:
    trap.config("core.pager", trap.marker.program("pager"))
    trap.config("pager.status", trap.marker.program("pager"))
    trap.config("pager.diff", trap.marker.program("pager"))
    for name in ("st", "status", "rev-parse", "diff"):
        trap.config(f"alias.{name}", f"!{trap.marker.program('alias')}")
    trap.config("core.editor", trap.marker.program("editor"))
    trap.config("core.askPass", trap.marker.program("askpass"))
    trap.config("credential.helper", trap.marker.program("helper"))
    ran = trap.on_a_terminal("-p", "status") | trap.plain("st") | trap.plain("commit", "--allow-empty")
    return ran | trap.plain("credential", "fill", stdin="protocol=https\nhost=localhost\n\n")


def submodule(trap: Trap) -> set[str]:
    """Its own configuration, which `git status` around it runs."""
    inner = repository(trap.repo.parent / "inner", {"s.txt": "one\n"})
    git(trap.repo, "submodule", "--quiet", "add", str(inner), "sub", home=trap.home)
    git(trap.repo, "commit", "-qm", "sub", home=trap.home)
    sub = trap.repo / "sub"
    git(sub, "config", "core.fsmonitor", trap.marker.program("sub-fsmonitor"))
    git(sub, "config", "filter.s.clean", trap.marker.program("sub-clean"))
    (trap.repo / ".git/modules/sub/info").mkdir(exist_ok=True)
    (trap.repo / ".git/modules/sub/info/attributes").write_text("* filter=s\n")
    trap.touch("sub/s.txt")
    trap.marker.taken()
    ran = trap.plain("status")
    trap.touch("sub/s.txt")
    return ran


def nested(trap: Trap) -> set[str]:
    """A repository within, which belongs to nobody; git does not look into it, and we do."""
    inner = repository(trap.repo / "nested", {"s.txt": "one\n"})
    git(inner, "config", "core.fsmonitor", trap.marker.program("nested"))
    return trap.plain("-C", "nested", "status")


def lazy_fetch(trap: Trap) -> set[str]:
    """A partial clone that lacks what a look for renames compares."""
    write(trap.repo, {"big": "x\n" * 100})
    git(trap.repo, "add", ".")
    git(trap.repo, "commit", "-qm", "big")
    git(trap.repo, "config", "uploadpack.allowFilter", "true")
    origin, part = trap.repo.rename(trap.repo.parent / "origin"), trap.repo
    git(part.parent, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{origin}", part.name)
    write(part, {"new": "x\n" * 99, "a.txt": "mine\n"})
    git(part, "add", "new")
    trap.config("protocol.allow", "always")
    ran = set[str]()
    program = trap.marker.program("fetch", "exit 1")
    for key, value in (
        ("remote.origin.url", f"ext::{program}"),
        ("core.sshCommand", trap.marker.program("ssh", "exit 1")),
        ("remote.origin.url", "ssh://localhost/x"),
    ):
        trap.config(key, value)
        ran |= trap.plain("status")
    trap.config("remote.origin.uploadpack", trap.marker.program("uploadpack", "exit 1"))
    trap.config("remote.origin.url", f"file://{origin}")
    return ran | trap.plain("status")


TRAPS: dict[Callable[[Trap], set[str]], set[str]] = {
    fsmonitor: {"fsmonitor"},
    included: {"included"},
    of_the_worktree: {"worktree"},
    clean: {"clean", "odd"},
    process: {"process"},
    of_the_person: {"person"},
    textconv_and_external_diff: {"textconv", "external", "every"},
    hooks: {"usual", "chosen"},
    signature: {"gpg"},
    pager_alias_editor_askpass: {"pager", "alias", "editor", "askpass", "helper"},
    submodule: {"sub-fsmonitor", "sub-clean"},
    nested: {"nested"},
    lazy_fetch: {"fetch", "ssh", "uploadpack"},
}


@pytest.mark.parametrize("setup", TRAPS, ids=lambda setup: setup.__name__)
async def test_nothing_that_the_repository_names_is_run(trap: Trap, setup: Callable[[Trap], set[str]]) -> None:
    assert setup(trap) == TRAPS[setup]

    trap.touch()
    seen = await before(trap.repo)
    assert trap.marker.taken() == set()

    write(trap.repo, {"b.txt": "its\n", "c.txt": "its\n"})
    quiet = ("-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false")
    if setup not in (clean, process, lazy_fetch):
        git(trap.repo, *quiet, "add", "c.txt", home=trap.home)
        git(trap.repo, *quiet, "commit", "-qm", "its", home=trap.home)
    trap.touch()
    trap.marker.taken()

    changes = await after(seen)
    assert trap.marker.taken() == set()
    assert "c.txt" in rows(changes)
    assert rows(changes)["b.txt"].startswith("modified" if setup is not lazy_fetch else "added")


async def test_what_the_run_itself_has_put_there_is_not_run_either(trap: Trap) -> None:
    seen = await before(trap.repo)
    assert fsmonitor(trap) | clean(trap) | process(trap) >= {"fsmonitor", "clean", "process"}
    trap.touch()
    changes = await after(seen)
    assert trap.marker.taken() == set()
    assert rows(changes) == {".gitattributes": "modified +1 -0"}


async def test_a_git_in_the_repository_is_not_taken_for_git(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Path(trap.marker.program("git", "exit 1"))
    program.rename(trap.repo / "git")
    monkeypatch.setenv("PATH", f".::{os.environ['PATH']}")
    monkeypatch.chdir(trap.repo)
    seen = await before(trap.repo)
    write(trap.repo, {"c.txt": "its\n"})
    changes = await after(seen)
    assert (rows(changes), changes.unseen, trap.marker.taken()) == ({"c.txt": "added +1 -0"}, (), set())


async def test_a_git_that_cannot_be_told_what_not_to_run_is_not_asked(
    trap: Trap, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fsmonitor(trap)
    old = tmp_path / "old"  # git before 2.31 passes over these variables
    old.mkdir()
    shim = old / "git"
    real = shutil.which("git")
    shim.write_text(f'#!/bin/sh\nunset GIT_CONFIG_COUNT\nexec "{real}" "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old}{os.pathsep}{os.environ['PATH']}")
    changes = await after(await before(trap.repo))
    assert trap.marker.taken() == set()
    assert changes.unseen == ("this git cannot be told what not to run: 2.31 is the oldest that can",)
