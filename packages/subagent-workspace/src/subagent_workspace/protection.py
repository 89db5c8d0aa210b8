"""Files that a task does not get, or may not rewrite, unless the person says so: two tables.

A pattern is matched part by part with `*`, `?` and `[…]`, without regard to case, against every run of parts of a path,
and covers all that lies below what it matches: `.github/workflows` is also `sub/.github/workflows/ci.yml`.  A pattern
that begins with `!` makes an exception; the last one that matches decides, as in a `.gitignore`.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from subagent_workspace._names import fold

__all__ = ["PROTECTED", "SECRET", "protecting"]

SECRET: Final[tuple[str, ...]] = (
    *(".env", ".env.*", ".envrc", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist"),
    *(".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".htpasswd", ".git-credentials", ".vault-token"),
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker/config.json", ".config/gcloud", ".config/gh"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "!*.pub"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.tfstate", "*.tfvars"),
    *("credentials", "credentials.json", "service-account*.json", "secrets.json", "secrets.toml", "secrets.y*ml"),
)
"""Neither read nor written: what holds credentials."""

PROTECTED: Final[tuple[str, ...]] = (
    # Written by a program from another file.
    *("*.lock", "*-lock.json", "*-lock.yaml", "npm-shrinkwrap.json", "bun.lockb", "go.sum", "gradle.lockfile"),
    *("packages.lock.json", "package.resolved", "*.min.js", "*.min.css"),
    *("node_modules", ".venv", "venv", "site-packages", "__pycache__"),
    # Run by a machine of the team, with its rights.
    *(".github/workflows", ".github/actions", ".gitlab-ci.yml", ".gitlab", ".circleci", ".buildkite", ".forgejo"),
    *(".gitea", ".woodpecker", ".woodpecker.y*ml", ".drone.y*ml", ".travis.yml", "appveyor.yml", ".appveyor.yml"),
    *("jenkinsfile", "azure-pipelines.y*ml", "bitbucket-pipelines.yml", "cloudbuild.y*ml", ".ci", "codeowners"),
    # Run on the person's machine without being asked for: hooks, filters, editors, shells, the interpreter's start.
    *(".husky", ".githooks", ".lefthook", "*lefthook.y*ml", ".pre-commit-config.yaml"),
    *(".gitmodules", ".gitattributes", ".gitconfig", ".vscode", ".idea", ".devcontainer", ".devcontainer.json"),
    *(".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".zprofile", ".direnv", ".mise.toml", "mise.toml"),
    *(".yarnrc*", ".yarn", "pip.conf", "sitecustomize.py", "usercustomize.py", "*.pth"),
    # What other agents are told and may do.
    *(".claude", ".codex", ".cursor", ".cursorrules", ".mcp.json", "claude.md", "agents.md", "gemini.md"),
)
"""Read, but not written: what runs by itself, what a program writes, and what other agents obey."""


def protecting(path: str, patterns: Iterable[str]) -> str | None:
    """The pattern that covers a path; None if none does, or an exception comes after it."""
    parts, found = fold(path).split("/"), None
    for pattern in patterns:
        wanted = fold(pattern.removeprefix("!")).strip("/").split("/")
        places = range(len(parts) - len(wanted) + 1)
        if pattern.startswith("!"):
            places = places[-1:]  # of the file itself: what lies below a folder of that name is no exception
        if any(_fits(parts[i : i + len(wanted)], wanted) for i in places):
            found = None if pattern.startswith("!") else pattern
    return found


def _fits(parts: list[str], wanted: list[str]) -> bool:
    return all(map(fnmatchcase, parts, wanted))
