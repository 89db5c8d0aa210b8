"""What tools get: a home of their own in which they still work, and nothing of the person's that is worth stealing."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from subagent_process import CompletedCommand, ToolEnv, run_command, throwaway_home, tool_env

pytestmark = pytest.mark.anyio

SYSTEM = "/usr/local/bin:/usr/bin:/bin"
TOKEN = "bait-4c1f9e"
BAITS = {
    ".gitconfig": f'[credential]\n\thelper = "!f() {{ echo username=u; echo password={TOKEN}; }}; f"\n',
    ".npmrc": f"//registry.npmjs.org/:_authToken={TOKEN}\ninit-author-name={TOKEN}\n",  # npm shows no token
    ".config/pip/pip.conf": f"[global]\nindex-url = https://u:{TOKEN}@127.0.0.1/simple\n",
    ".pip/pip.conf": f"[global]\nextra-index-url = https://u:{TOKEN}@127.0.0.1/simple\n",
    ".config/uv/uv.toml": f'index-url = "https://u:{TOKEN}@127.0.0.1/simple"\n',
    ".netrc": f"machine 127.0.0.1 login u password {TOKEN}\n",
    ".git-credentials": f"https://u:{TOKEN}@127.0.0.1\n",
    ".config/git/credentials": f"https://u:{TOKEN}@127.0.0.1\n",
    ".config/gh/hosts.yml": f"github.com:\n  oauth_token: {TOKEN}\n",
    ".aws/credentials": f"[default]\naws_secret_access_key = {TOKEN}\n",
    ".cargo/credentials.toml": f'[registry]\ntoken = "{TOKEN}"\n',
    ".cargo/config.toml": f'[registries.x]\ntoken = "{TOKEN}"\n',
    ".m2/settings.xml": f"<settings><servers><server><password>{TOKEN}</password></server></servers></settings>",
    ".gradle/gradle.properties": f"token={TOKEN}\n",
    ".docker/config.json": f'{{"auths": {{"x": {{"auth": "{TOKEN}"}}}}}}',
    ".bashrc": f"export STOLEN={TOKEN}\n",
    ".profile": f"export STOLEN={TOKEN}\n",
}


def put(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    return folder


@pytest.fixture
def person(tmp_path: Path) -> Path:
    """The person's HOME, its name with a blank and a quote in it."""
    return put(tmp_path / "per's on", {".gitconfig": "[user]\n\tname = A\n\temail = a@x\n"})


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working folder that is no repository."""
    path = tmp_path / "work"
    path.mkdir()
    return path


async def made(cwd: Path, root: Path, home: Path | None, *, real: bool = False, **ambient: str) -> ToolEnv:
    ambient = {"PATH": SYSTEM, **ambient} | ({"HOME": str(home)} if home else {})
    with anyio.fail_after(20):
        return await tool_env(cwd, root, ambient=ambient, real=real)


async def ran(tools: ToolEnv, cwd: Path, *argv: str) -> CompletedCommand:
    return await run_command(argv, env=tools.variables, cwd=cwd, timeout=60)


async def shell(tools: ToolEnv, cwd: Path, script: str) -> str:
    done = await ran(tools, cwd, "sh", "-c", script)
    assert done.exit == 0, done.stderr
    return done.stdout.decode()


def git_in(folder: Path, *arguments: str) -> None:
    alone = {"PATH": SYSTEM, "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *arguments], cwd=folder, env=alone, check=True, capture_output=True, timeout=30)


async def test_the_table_of_what_tools_get(work: Path, tmp_path: Path, person: Path) -> None:
    for folder in (".rustup", ".pyenv", ".local/share/uv/python", "jdk", "my nvm", ".sdkman"):
        (person / folder).mkdir(parents=True)
    (person / ".volta").write_text("no folder")
    root = tmp_path / "tools"
    tools = await made(
        work, root, person,
        LANG="de_DE.UTF-8", LC_TIME="C", TZ="UTC", TERM="xterm", SHELL="/bin/zsh", USER="u", HTTPS_PROXY="http://proxy:1",
        SSL_CERT_FILE="/ca.pem", PIP_CERT="/ca.pem", GIT_AUTHOR_NAME="B", EMAIL="b@x", PYENV_VERSION="3.12",
        PIP_INDEX_URL="https://mirror/simple", UV_INDEX_URL=f"https://u:{TOKEN}@mirror/simple",
        JAVA_HOME=str(person / "jdk"), NVM_DIR=str(person / "my nvm"), GOROOT="/not/there", CARGO_HOME="/elsewhere",
        TMP="/tmp", TEMP="/tmp", XDG_CONFIG_HOME="/x", OPENAI_API_KEY=TOKEN, SSH_AUTH_SOCK="/s", GIT_DIR="/g",
        LD_PRELOAD="/l", CLAUDECODE="1", VIRTUAL_ENV="/v", DATABASE="d", GIT_SSH_COMMAND="ssh -i key",
    )  # fmt: skip
    assert dict(tools.variables) == {
        "PATH": SYSTEM, "LANG": "de_DE.UTF-8", "LC_TIME": "C", "TZ": "UTC", "TERM": "xterm", "SHELL": "/bin/zsh",
        "USER": "u", "HTTPS_PROXY": "http://proxy:1", "SSL_CERT_FILE": "/ca.pem", "PIP_CERT": "/ca.pem",
        "GIT_AUTHOR_NAME": "B", "EMAIL": "b@x", "PYENV_VERSION": "3.12", "PIP_INDEX_URL": "https://mirror/simple",
        "HOME": f"{root}/home", "TMPDIR": f"{root}/tmp", "XDG_CONFIG_HOME": f"{root}/config",
        "XDG_CACHE_HOME": f"{root}/cache", "XDG_DATA_HOME": f"{root}/data", "XDG_STATE_HOME": f"{root}/state",
        "XDG_RUNTIME_DIR": f"{root}/run",
        "RUSTUP_HOME": f"{person}/.rustup", "PYENV_ROOT": f"{person}/.pyenv", "JAVA_HOME": f"{person}/jdk",
        "UV_PYTHON_INSTALL_DIR": f"{person}/.local/share/uv/python", "NVM_DIR": f"{person}/my nvm",
        "SDKMAN_DIR": f"{person}/.sdkman",
        "UV_CACHE_DIR": f"{root}/cache/uv", "PIP_CACHE_DIR": f"{root}/cache/pip",
        "npm_config_cache": f"{root}/cache/npm", "YARN_CACHE_FOLDER": f"{root}/cache/yarn",
        "BUN_INSTALL_CACHE_DIR": f"{root}/cache/bun", "DENO_DIR": f"{root}/cache/deno", "GOPATH": f"{root}/cache/go",
        "GOCACHE": f"{root}/cache/go-build", "GOMODCACHE": f"{root}/cache/go-mod",
        "NUGET_PACKAGES": f"{root}/cache/nuget", "PUB_CACHE": f"{root}/cache/pub",
        "CARGO_HOME": f"{root}/cargo", "GRADLE_USER_HOME": f"{root}/gradle", "COMPOSER_HOME": f"{root}/composer",
        "BUNDLE_USER_HOME": f"{root}/bundle",
        "GIT_CONFIG_GLOBAL": f"{root}/home/.gitconfig", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0",
        "GIT_SSH_COMMAND": "ssh -F /dev/null -o IdentityFile=none -o IdentityAgent=none -o PubkeyAuthentication=no"
        " -o BatchMode=yes",
        "PIP_CONFIG_FILE": "/dev/null", "npm_config_globalconfig": "/dev/null",
        "MAVEN_OPTS": f"-Duser.home={root}/home", "SBT_OPTS": f"-Duser.home={root}/home",
        "SUBAGENT_DEPTH": "1",
    }  # fmt: skip
    assert tools.writable == (root,)
    assert dict(tools.left_out) == {
        "HOME": "own", "XDG_CONFIG_HOME": "own", "CARGO_HOME": "own", "GIT_SSH_COMMAND": "own",
        "TMP": "unlisted", "TEMP": "unlisted", "DATABASE": "unlisted", "GOROOT": "no folder",
        "OPENAI_API_KEY": "credential", "UV_INDEX_URL": "credential", "SSH_AUTH_SOCK": "credential",
        "GIT_DIR": "git-location", "LD_PRELOAD": "loader", "CLAUDECODE": "session-marker",
        "VIRTUAL_ENV": "own-environment",
    }  # fmt: skip
    assert TOKEN not in repr(tools)


PROBES = {
    "git credential": "printf 'protocol=https\\nhost=127.0.0.1\\n\\n' | git credential fill",
    "git config": "git config --list",
    "npm": "npm config get init-author-name",
    "pip": "python3 -m pip config list",
    "netrc": "python3 -c 'import netrc; print(netrc.netrc().hosts)'",
    "cargo": 'cat "${CARGO_HOME:-$HOME/.cargo}"/*',
    "gradle": 'cat "${GRADLE_USER_HOME:-$HOME/.gradle}"/*',
    "uv": 'cat "${XDG_CONFIG_HOME:-$HOME/.config}/uv/uv.toml"',
    "gh": 'cat "${XDG_CONFIG_HOME:-$HOME/.config}/gh/hosts.yml"',
    "files": "cat " + " ".join(f'"$HOME/{name}"' for name in BAITS),
    "a login shell": "sh -lc env",
    "an interactive shell": "bash -ic env",
}


@pytest.mark.parametrize("probe", PROBES)
async def test_no_token_of_the_persons_home_is_found(work: Path, tmp_path: Path, person: Path, probe: str) -> None:
    put(person, BAITS)
    script = PROBES[probe]
    if shutil.which(script.split()[0], path=SYSTEM) is None:
        pytest.skip(f"{script.split()[0]} is not installed")
    tools = await made(work, tmp_path / "tools", person)
    found = await ran(tools, work, "sh", "-c", f"{script}; echo done")
    assert b"done" in found.stdout
    assert TOKEN.encode() not in found.stdout + found.stderr

    tools = await made(work, tmp_path / "tools", person, real=True)
    found = await ran(tools, work, "sh", "-c", f"{script}; echo done")
    if b"No module named pip" in found.stderr:
        pytest.skip("pip is not installed")
    assert TOKEN.encode() in found.stdout + found.stderr  # the bait is one


async def test_ssh_below_git_takes_neither_keys_nor_configuration_of_the_account(
    work: Path, tmp_path: Path, person: Path
) -> None:
    tools = await made(work, tmp_path / "tools", person)
    if shutil.which("ssh", path=SYSTEM) is None:
        pytest.skip("ssh is not installed")
    says = await shell(tools, work, "$GIT_SSH_COMMAND -G host")
    settings = {name: value for name, _, value in (line.partition(" ") for line in says.splitlines())}
    assert settings["identityfile"] == "none"
    assert settings["identityagent"] == "none"
    assert settings["pubkeyauthentication"] in ("no", "false")
    assert settings["batchmode"] == "yes"


async def test_a_commit_has_the_author_that_the_person_has_in_that_folder(
    work: Path, tmp_path: Path, person: Path
) -> None:
    put(person, {".gitconfig": f"""
[user]
    name = At Home
    email = home@x
[includeIf "gitdir:{work}/"]
    path = work.inc
[init]
    defaultBranch = trunk
[safe]
    directory = /a b
    directory = *
    directory = ~/mine
[core]
    pager = false
""", "work.inc": "[user]\n\temail = work@x\n"})  # fmt: skip
    git_in(work, "init", "-q")
    tools = await made(work, tmp_path / "tools", person)
    assert not {"user.name", "user.email"} & tools.left_out.keys()
    assert await shell(tools, work, "git commit -q --allow-empty -m x && git log --format='%an <%ae>|%cn <%ce>'") == (
        "At Home <work@x>|At Home <work@x>\n"
    )
    assert (await shell(tools, work, "git config --global --get-all safe.directory")).splitlines() == [
        "/a b", "*", f"{person}/mine",
    ]  # fmt: skip
    assert await shell(tools, work, "git init -q new && git -C new symbolic-ref HEAD") == "refs/heads/trunk\n"
    assert "pager" not in await shell(tools, work, "git config --global --list")


@pytest.mark.parametrize(
    "name",
    [
        'O"Brien \\ #1; x',
        " blank at both ends ",
        "two\nlines\tand\ba tab",
        "Ünï 🎈",
        "-n",
        "=",
        "[a]",
        "$(touch x)`x`'",
    ],
)
async def test_any_name_arrives_as_it_is(work: Path, tmp_path: Path, person: Path, name: str) -> None:
    git_in(person, "config", "--file", ".gitconfig", "user.name", name)
    tools = await made(work, tmp_path / "tools", person)
    assert await shell(tools, work, "git config -z user.name") == f"{name}\0"


async def test_a_name_that_is_no_utf_8_arrives_as_it_is(work: Path, tmp_path: Path, person: Path) -> None:
    (person / ".gitconfig").write_bytes(b"[user]\n\tname = J\xe9r\n")
    tools = await made(work, tmp_path / "tools", person)
    assert (await ran(tools, work, "git", "config", "user.name")).stdout == b"J\xe9r\n"
    assert tools.left_out["user.email"] == "unknown"


async def test_what_the_repository_itself_says_stays_there(work: Path, tmp_path: Path, person: Path) -> None:
    put(person, {".gitconfig": ""})
    git_in(work, "init", "-q")
    for key, value in {"user.name": "R", "user.email": "r@x", "safe.directory": "*"}.items():
        git_in(work, "config", key, value)
    tools = await made(work, tmp_path / "tools", person)
    assert Path(tools.variables["GIT_CONFIG_GLOBAL"]).read_text() == ""
    assert not {"user.name", "user.email"} & tools.left_out.keys()
    assert await shell(tools, work, "git commit -q --allow-empty -m x; git log --format=%an") == "R\n"


@pytest.mark.parametrize("broken", ["no git", "bad configuration", "no folder", "silent git", "no home at all"])
async def test_an_identity_that_cannot_be_had_is_no_error(
    work: Path, tmp_path: Path, person: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, home, cwd = SYSTEM, person, work
    match broken:
        case "no git":
            path = str(tmp_path)
        case "bad configuration":
            put(person, {".gitconfig": "[user\n"})
        case "no folder":
            cwd = tmp_path / "missing"
        case "silent git":
            put(tmp_path / "bin", {"git": "#!/bin/sh\nexec sleep 60\n"})
            (tmp_path / "bin/git").chmod(0o755)
            path = f"{tmp_path}/bin:{SYSTEM}"
            monkeypatch.setattr("subagent_process._identity._PATIENCE", 0.3)
        case _:
            monkeypatch.setattr("pwd.getpwuid", dict[int, str]().__getitem__)  # a container's user without an account
            home = None
    tools = await made(cwd, tmp_path / "tools", home, PATH=path)
    assert tools.left_out["user.name"] == tools.left_out["user.email"] == "unknown"
    assert Path(tools.variables["GIT_CONFIG_GLOBAL"]).read_bytes() == b""
    assert tools.variables["HOME"] == str(tmp_path / "tools/home")
    real = await made(cwd, tmp_path / "tools", home, PATH=path, real=True)
    assert real.variables.get("HOME") == (str(home) if home else None)


async def test_without_a_home_the_accounts_is_asked(work: Path, tmp_path: Path, person: Path) -> None:
    import pwd

    tools = await made(work, tmp_path / "tools", None, real=True)
    assert tools.variables["HOME"] == pwd.getpwuid(os.getuid()).pw_dir


async def test_a_path_that_is_missing_is_the_systems(work: Path, tmp_path: Path, person: Path) -> None:
    with anyio.fail_after(20):
        tools = await tool_env(work, tmp_path / "tools", ambient={"HOME": str(person)})
    assert tools.variables["PATH"] == os.defpath
    assert "user.name" not in tools.left_out  # git was found


async def test_the_real_home_is_real_and_caches_are_not(work: Path, tmp_path: Path, person: Path) -> None:
    root = tmp_path / "tools"
    tools = await made(
        work, root, person, real=True, XDG_CONFIG_HOME="/c", CARGO_HOME="/cargo", GIT_CONFIG_GLOBAL="/g",
        OPENAI_API_KEY=TOKEN,
    )  # fmt: skip
    variables = tools.variables
    assert variables["HOME"] == str(person)
    assert (variables["XDG_CONFIG_HOME"], variables["CARGO_HOME"], variables["GIT_CONFIG_GLOBAL"]) == (
        "/c",
        "/cargo",
        "/g",
    )
    assert (
        not {"XDG_DATA_HOME", "GIT_SSH_COMMAND", "GIT_CONFIG_NOSYSTEM", "PIP_CONFIG_FILE", "MAVEN_OPTS"}
        & variables.keys()
    )
    assert variables["UV_CACHE_DIR"] == f"{root}/cache/uv"
    assert variables["TMPDIR"] == f"{root}/tmp"
    assert variables["GIT_TERMINAL_PROMPT"] == "0"
    assert tools.left_out["OPENAI_API_KEY"] == "credential"
    assert not (root / "home/.gitconfig").exists()


@pytest.mark.parametrize("where", ["", "src/deep/project"])
async def test_what_lies_above_the_working_folder_is_found_and_therefore_named(
    tmp_path: Path, person: Path, where: str
) -> None:
    put(person, BAITS)
    put(person, {".yarnrc.yml": "", "uv.toml": "", "src/deep/.yarnrc": "", f"{where}/own.txt": ""})
    (tmp_path / ".npmrc").mkdir()  # no file
    tools = await made(person / where, tmp_path / "tools", person)
    named = {name for name, why in tools.left_out.items() if why == "above"}
    expected = {".npmrc", ".yarnrc.yml", ".cargo/config.toml", "uv.toml", *(["src/deep/.yarnrc"] if where else [])}
    assert named == {str(person / name) for name in expected}
    assert "above" not in (await made(person / where, tmp_path / "tools", person, real=True)).left_out.values()
    put(person, {"src/deep/project/.npmrc": ""})  # the task's own
    tools = await made(person / "src/deep/project", tmp_path / "tools", person)
    assert str(person / "src/deep/project/.npmrc") not in tools.left_out


async def test_no_value_is_shown_not_even_one_that_was_set(work: Path, tmp_path: Path, person: Path) -> None:
    tools = await tool_env(work, tmp_path / "tools", ambient={"HOME": str(person)}, set={"NPM_TOKEN": TOKEN})
    assert tools.variables["NPM_TOKEN"] == TOKEN
    assert TOKEN not in repr(tools)


async def test_a_folder_that_does_not_answer_stalls_nobody(
    work: Path, tmp_path: Path, person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, really = threading.Event(), os.path.isdir

    def isdir(path: str) -> bool:
        if path == "/mnt/nfs/jdk":
            answers.wait(20)
        return really(path)

    monkeypatch.setattr("os.path.isdir", isdir)
    with anyio.fail_after(10), anyio.move_on_after(1) as scope:
        await made(work, tmp_path / "tools", person, JAVA_HOME="/mnt/nfs/jdk")
    assert scope.cancelled_caught
    answers.set()


async def test_a_path_with_a_nul_is_a_value_error(work: Path, tmp_path: Path, person: Path) -> None:
    with pytest.raises(ValueError, match="cwd holds a NUL"):
        await made(Path("/a\0b"), tmp_path / "tools", person)


async def test_what_is_set_wins_over_all_but_the_depth(work: Path, tmp_path: Path, person: Path) -> None:
    ambient = {"PATH": SYSTEM, "HOME": str(person), "SUBAGENT_DEPTH": "2"}
    chosen = {"PIP_CONFIG_FILE": "/mine", "HOME": "/h", "SUBAGENT_DEPTH": "0"}
    tools = await tool_env(work, tmp_path / "tools", ambient=ambient, set=chosen)
    assert (tools.variables["PIP_CONFIG_FILE"], tools.variables["HOME"]) == ("/mine", "/h")
    assert tools.variables["SUBAGENT_DEPTH"] == "3"


async def test_a_throwaway_home_lends_a_folder_that_goes_with_it(work: Path, person: Path) -> None:
    async with throwaway_home("codex") as home:
        tools = await tool_env(work, home, ambient={"PATH": SYSTEM, "HOME": str(person)})
        (root,) = tools.writable
        assert root == home.root / "tools"
        for folder in (root, *root.iterdir()):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert not home.path("codex").is_relative_to(root)
        await shell(tools, work, 'touch "$CARGO_HOME/x" "$TMPDIR/x" "$XDG_RUNTIME_DIR/x"')
    assert not root.exists()


async def test_a_folder_that_lasts_is_used_again(work: Path, tmp_path: Path, person: Path) -> None:
    first = await made(work, tmp_path / "tools", person)
    await shell(first, work, 'mkdir -p "$UV_CACHE_DIR" && touch "$UV_CACHE_DIR/warm"')
    git_in(person, "config", "--file", ".gitconfig", "user.name", "Another")
    second = await made(work, tmp_path / "tools", person)
    assert second.variables == first.variables
    assert await shell(second, work, 'ls "$UV_CACHE_DIR"; git config user.name') == "warm\nAnother\n"


@pytest.mark.parametrize("trap", ["link to a file", "link to a folder", "pipe", "hard link"])
async def test_what_an_earlier_task_planted_leads_nowhere(
    work: Path, tmp_path: Path, person: Path, victim: Path, trap: str
) -> None:
    root = tmp_path / "tools"
    await made(work, root, person)
    gitconfig = root / "home/.gitconfig"
    gitconfig.unlink()
    match trap:
        case "link to a file":
            gitconfig.symlink_to(victim / "keep.txt")
        case "hard link":
            gitconfig.hardlink_to(victim / "keep.txt")
        case "pipe":
            os.mkfifo(gitconfig)
        case _:
            (root / "home").rmdir()
            (root / "home").symlink_to(victim)
    if trap == "link to a folder":
        with pytest.raises(NotADirectoryError):
            await made(work, root, person)
    else:
        tools = await made(work, root, person)
        assert await shell(tools, work, "git config user.name") == "A\n"
    assert [path.name for path in victim.iterdir()] == ["keep.txt"]
    assert (victim / "keep.txt").read_text() == "precious"


@pytest.mark.parametrize(
    "name", ["", "home", "tmp", "cache", "run", "config", "data", "state", "cargo", "gradle", "composer", "bundle"]
)
async def test_a_link_in_the_place_of_a_folder_is_refused(
    work: Path, tmp_path: Path, person: Path, victim: Path, name: str
) -> None:
    root = tmp_path / "tools"
    if name:
        root.mkdir()
    (root / name if name else root).symlink_to(victim)
    with pytest.raises(NotADirectoryError):
        await made(work, root, person)
    assert [path.name for path in victim.iterdir()] == ["keep.txt"]


async def test_blanks_in_the_path_of_the_home_break_no_script(work: Path, tmp_path: Path, person: Path) -> None:
    tools = await made(work, tmp_path / "my tools", person)
    assert not {"MAVEN_OPTS", "SBT_OPTS"} & tools.variables.keys()
    assert await shell(tools, work, "git config user.name") == "A\n"


async def test_a_shim_of_rustup_finds_its_toolchain_and_no_credentials(
    work: Path, tmp_path: Path, person: Path
) -> None:
    shim = '#!/bin/sh\nprintf "%s " "$0"; cat "$RUSTUP_HOME/settings.toml"; cat "$CARGO_HOME/credentials.toml" || :\n'
    put(person, {**BAITS, ".rustup/settings.toml": "default = stable", ".cargo/bin/cargo": shim})
    (person / ".cargo/bin/cargo").chmod(0o755)
    tools = await made(work, tmp_path / "tools", person, PATH=f"{person}/.cargo/bin:{SYSTEM}")
    assert await shell(tools, work, "cargo --version") == f"{person}/.cargo/bin/cargo default = stable"


async def test_a_real_toolchain_works_in_it(work: Path, tmp_path: Path) -> None:
    """With whatever of them is installed here, under the real environment."""
    put(work, {"package.json": '{"scripts": {"hello": "echo hello from npm"}}'})
    with anyio.fail_after(100):
        tools = await tool_env(work, tmp_path / "tools")
        path = tools.variables["PATH"]
        for command, script, expected in (
            ("cargo", "cargo --version", "cargo "),
            ("npm", "npm run hello", "hello from npm"),
            ("uv", "uv run --no-project --offline python -c 'print(6 * 7)'", "42"),
            ("git", "git init -q r && cd r && git -c user.name=n -c user.email=e commit --allow-empty -m done", "done"),
        ):
            if shutil.which(command, path=path):
                assert expected in await shell(tools, work, script)
