"""What a path may be: the tables (cases 8-01, 8-03, 8-05), and what falls together."""

# ruff: noqa: RUF001, SIM905  # names that look alike are the subject, and lists of words are easier to read

from __future__ import annotations

import pytest

from subagent_workspace.errors import PathsRefused
from subagent_workspace.paths import check_paths, refusal

FINE = """
a a.py a.b/c-d_e/…ü.py src/app.py a/b/c/d.txt -x +x @x/y.ts [id].tsx (a)/b.ts a,b;c=d&e.txt {x}.md $x.py %x %41.txt
#x !x
a~ a~b file~1x verylongname~1 x~1.jpeg a'b x^y ..a ...a a..b ....a.txt .a .py
.gitignore .GITATTRIBUTES .gitmodules .github/x git/x git x.git a.git/x .gitx .git.x .gi gi~ git~ git~x
console.py null.py auxiliary.md com10 com lpt lpt10.txt acon.txt com1x nulx conin conin$x a/conx prna.d/x clock com¹0
日本語/ファイル.py é.txt naïve.md Ωmega.c 😀.md ſ.txt ß.txt İ.txt Ђ.txt हिन्दी.md ／ a／b
""".split()

REFUSED = {
    "": "empty", ".": "a dot", "..": "out of", "./a": "a dot", "a/.": "a dot", "a/./b": "a dot",
    "../x": "out of", "a/../../x": "out of", "a/..": "out of", "a/../b": "out of",
    "/": "root", "/etc/x": "root", "//host/s": "root", "a//b": "empty part", "a/": "empty part",
    "a/b//": "empty part",
    "C:\\x": "drive", "C:x": "drive", "c:/x": "drive", "\\\\host\\s": "backslash", "a\\b": "backslash",
    "..\\x": "backslash",
    "\\\\?\\C:\\x": "backslash", "~": "home", "~/.ssh/x": "home", "~root/x": "home", "~a": "home",
    "a:b": "drive", "ab:c": "Windows", "a.txt:stream": "Windows", "a?b": "patterns", "src/*.py": "patterns",
    'a"b': "Windows",
    "a<b": "Windows", "a>b": "Windows", "a|b": "Windows",
    "a.": "Windows drops", "a ": "Windows drops", "a./b": "Windows drops", "a /b": "Windows drops",
    "a/b. .": "Windows drops",
    " a": "begins with a space", "a/ b": "begins with a space",
    "...": "only dots", "a/....": "only dots", ". .": "only dots", "．．/x": "only dots", "…": "only dots",
    "a/․․": "only dots",
    "a\0b": "U+0000", "a\nb": "U+000A", "a\rb": "U+000D", "a\tb": "U+0009", "a\x1b[31m": "U+001B", "a\x7f": "U+007F",
    "a\x9bb": "U+009B", "a\u202eb": "U+202E", "a\u2066b": "U+2066", "a\u200bb": "U+200B", "a\u200db": "U+200D",
    "a\ufeffb": "U+FEFF", "\ufeffa": "U+FEFF", "a\u00adb": "U+00AD", "a\u2028b": "U+2028", "a\u2029b": "U+2029",
    "a\u00a0b": "U+00A0", "a\u3000b": "U+3000", "a\u202fb": "U+202F", "a\u3164b": "U+3164", "a\u115fb": "U+115F",
    "a\u2800b": "U+2800", "a\ufe0fb": "U+FE0F", "a\U000e0101b": "U+E0101", "a\U000e0041b": "U+E0041",
    "a\u034fb": "U+034F",
    "a\ud800b": "U+D800", "a\ue000b": "U+E000", "a\uf03ab": "U+F03A",
    "a\U0010fffdb": "U+10FFFD",
    "a\ufffeb": "U+FFFE", "a\u0378b": "U+0378",
    "x" * 256: "256 bytes", "a/" + "ü" * 128: "256 bytes", "x" * 5000: "5,000 bytes",
    "a/" * 2100 + "x": "4,201 bytes",
    "é/" * 1365 + "xx": "4,097 bytes",
}  # fmt: skip

GIT = """
.git .git/config .GIT/hooks/pre-commit sub/.Git/x a/.git .gIt .git./x .git../x a/.git...
.git::$INDEX_ALLOCATION/config .git:x .GIT::$index_allocation .git.:x
git~1 GIT~1/config Git~2 a/git~10 gi7eba~1 GI1234~9/x git~1.txt
．git/x .ｇｉｔ/x .ⓖⓘⓣ/x .𝐠𝐢𝐭/x ․git/config ﹒git .gıt
""".split()

DEVICES = """
nul NUL Nul con.php Aux.tar.gz com1 COM¹ com².txt lpt³ lpt9.txt COM0 com5.a.b prn/x.py a/prn/x CONIN$ conout$
CLOCK$ clock$.x
aux/a nul:x con.. ＮＵＬ ｃｏｎ.txt com① Ⓒon
""".split()


@pytest.mark.parametrize("path", [*FINE, "a b", "a b/c d.txt", "x" * 255, "a/" + "ü" * 127, "é/" * 1365 + "x"])
def test_a_path_is_fine(path: str) -> None:
    assert refusal(path) is None
    check_paths([path])


@pytest.mark.parametrize(("path", "reason"), REFUSED.items())
def test_a_path_is_refused_with_its_reason(path: str, reason: str) -> None:
    assert reason in (refusal(path) or "")
    with pytest.raises(PathsRefused) as caught:
        check_paths(["fine.txt", path])
    assert list(caught.value.reasons) == [path]


@pytest.mark.parametrize("path", GIT)
def test_no_path_leads_into_git(path: str) -> None:
    reason = refusal(path)
    assert reason is not None
    assert ".git" in reason or "short name" in reason


@pytest.mark.parametrize("ignored", ["\u200c", "\u200d", "\u200e", "\u202a", "\u206f", "\ufeff", "\u00ad", "\ufe0f"])
@pytest.mark.parametrize("at", range(5))
def test_no_character_that_a_file_system_ignores_opens_git(ignored: str, at: int) -> None:
    assert refusal(f"{'.git'[:at]}{ignored}{'.git'[at:]}/config") is not None


@pytest.mark.parametrize("path", [*DEVICES, "con .txt", "nul .", "com1 .tar.gz"])
def test_a_name_that_windows_keeps_for_a_device_is_refused_everywhere(path: str) -> None:
    assert "device" in (refusal(path) or "")


@pytest.mark.parametrize("path", ["PROGRA~1/x", "progra~1.txt", "a~1", "ENV~1", "a/GITHUB~1/x", "abcdef~1.ht"])
def test_a_short_name_of_windows_is_refused_since_it_may_be_another_file(path: str) -> None:
    assert "short name" in (refusal(path) or "")


@pytest.mark.parametrize(
    "paths",
    [
        ("a.py", "A.py"),
        ("src/a.py", "SRC/a.py"),
        ("straße.md", "STRASSE.md"),
        ("é.txt", "e\u0301.txt"),
        ("ﬁ.txt", "fi.txt"),
        ("a².txt", "a2.txt"),
        ("\u212b.c", "\u00c5.c"),
        ("ǅ.c", "dž.c"),
        ("ı.c", "I.c"),
        ("ς.c", "σ.c"),
    ],
)
def test_two_paths_that_fall_together_somewhere_are_refused(paths: tuple[str, str]) -> None:
    assert [refusal(path) for path in paths] == [None, None]
    with pytest.raises(PathsRefused) as caught:
        check_paths(paths)
    assert "falls together" in caught.value.reasons[paths[1]]


def test_a_path_named_twice_is_refused() -> None:
    with pytest.raises(PathsRefused) as caught:
        check_paths(["a", "b", "a"])
    assert caught.value.reasons == {"a": "it is named twice"}


@pytest.mark.parametrize("paths", [("a", "a/b"), ("a/b", "a"), ("x/A", "x/a/b/c"), ("a/b/c/d", "a")])
def test_a_path_that_is_the_folder_of_another_is_refused(paths: tuple[str, str]) -> None:
    with pytest.raises(PathsRefused) as caught:
        check_paths(paths)
    assert "named as a file" in caught.value.reasons[max(paths, key=len)]


def test_names_that_only_begin_alike_are_fine() -> None:
    check_paths(["a", "ab", "a.b", "b/a", "b/a.b"])


def test_all_reasons_are_told_at_once_and_shown_without_what_hides() -> None:
    paths = ["ok.py", "../x", "a\u202eb", "nul", "OK.py", ".git/config"]
    with pytest.raises(PathsRefused) as caught:
        check_paths(paths)
    assert set(caught.value.reasons) == set(paths) - {"ok.py"}
    message = str(caught.value)
    assert "\u202e" not in message
    assert "'a<U+202E>b'" in message
    assert all(part in message for part in ("'../x'", "'nul'", "'OK.py'"))


def test_a_message_stays_short_with_many_and_long_paths() -> None:
    with pytest.raises(PathsRefused) as caught:
        check_paths(f"../{i}/{'x' * 3000}" for i in range(100))
    assert len(caught.value.reasons) == 100
    assert len(str(caught.value)) < 10_000
    assert "80 more" in str(caught.value)
