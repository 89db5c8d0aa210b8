"""New text in the form of the old file (case 8-06), diffs and warnings."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subagent_workspace._diff import blocks, unified
from subagent_workspace._review import stands_for_more
from subagent_workspace._text import in_form, parse
from subagent_workspace.errors import FilesRefused
from subagent_workspace.reading import read_files
from subagent_workspace.writing import Rewrite, Written, write_files

BOM = b"\xef\xbb\xbf"


def rewrite(folder: Path, text: str, *, old: bytes | None, name: str = "file.txt") -> Written:
    if old is not None:
        (folder / name).write_bytes(old)
    (file,) = read_files(folder, write=[name]).write
    (written,) = write_files(folder, [Rewrite(file, text)])
    return written


FORMS: dict[str, tuple[bytes | None, str, bytes]] = {
    "a CRLF file stays CRLF with an LF answer": (b"a\r\nb\r\n", "a\nB\nc\n", b"a\r\nB\r\nc\r\n"),
    "a CRLF answer makes no doubled ends": (b"a\r\nb\r\n", "a\r\nB\r\n", b"a\r\nB\r\n"),
    "an LF file stays LF with a CRLF answer": (b"a\nb\n", "a\r\nB\r\n", b"a\nB\n"),
    "a CR file stays CR": (b"a\rb\r", "a\nB\n", b"a\rB\r"),
    "a mixed file keeps the ends of lines that stay": (b"a\r\nb\nc\r\n", "a\nb\nC\nd\n", b"a\r\nb\nC\r\nd\r\n"),
    "a mixed file with lines put in front": (b"a\nb\r\nc\n", "x\na\nb\nc\n", b"x\na\nb\r\nc\n"),
    "of two ends that are equally frequent the first": (b"a\r\nb\n", "x\ny\n", b"x\r\ny\r\n"),
    "a lone CR inside of an LF file stays": (b"10%\r20%\nend\n", "10%\n20%\nEND\n", b"10%\r20%\nEND\n"),
    "no final newline stays so": (b"a\nb", "a\nB\n", b"a\nB"),
    "no final newline, and none in the answer": (b"a\nb", "a\nB", b"a\nB"),
    "a final newline is kept": (b"a\n", "b", b"b\n"),
    "only one line end at the end counts for nothing": (b"a", "b\n\n", b"b\n"),
    "further ones are empty lines": (b"a\n", "b\n\n\n", b"b\n\n\n"),
    "a BOM stays": (BOM + b"a\n", "b\n", BOM + b"b\n"),
    "a BOM in the answer is not doubled": (BOM + b"a\n", "\ufeffb\n", BOM + b"b\n"),
    "a BOM in the answer is not brought in": (b"a\n", "\ufeffb\n", b"b\n"),
    "a BOM, CRLF and no final newline": (BOM + b"a\r\nb", "a\nc\n", BOM + b"a\r\nc"),
    "an empty file gets LF and a final newline": (b"", "a\nb", b"a\nb\n"),
    "a file of one line without an end": (b"a", "a\nb", b"a\nb"),
    "a new file gets LF and a final newline": (None, "a\r\nb", b"a\nb\n"),
    "a new file may be empty": (None, "", b""),
    "a file may become empty": (b"a\n", "", b""),
    "a file with a BOM may become empty": (BOM + b"a\n", "", BOM),
    "other separators are letters of a line": (b"\x0cb\n", "a\x0cb\u2028\x85e\n", b"a\x0cb\xe2\x80\xa8\xc2\x85e\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", FORMS)
def test_the_form_of_the_file_is_kept(tmp_path: Path, case: str) -> None:
    old, text, new = FORMS[case]
    written = rewrite(tmp_path, text, old=old)
    assert (tmp_path / "file.txt").read_bytes() == new
    assert written.status == ("added" if old is None else "modified")


@pytest.mark.parametrize(
    "old", [b"a\r\nb\r\n", b"a\nb", b"a\r\nb\n", BOM + b"a\n", b"", b"a\rb\nc\r\n\r\n", b"\n", b"\r\n\n"]
)
def test_text_that_comes_back_as_it_was_touches_nothing(tmp_path: Path, old: bytes) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(old)
    before = path.stat()
    (file,) = read_files(tmp_path, write=["file.txt"]).write
    for text in (file.text, file.text.replace("\n", "\r\n"), "\ufeff" + file.text):
        (written,) = write_files(tmp_path, [Rewrite(file, text)])
        assert (written.status, written.diff, written.warnings) == ("unchanged", "", ())
    after = path.stat()
    assert (before.st_ino, before.st_mtime_ns, before.st_ctime_ns) == (
        after.st_ino,
        after.st_mtime_ns,
        after.st_ctime_ns,
    )


@given(st.lists(st.tuples(st.text("ab é", max_size=2), st.sampled_from(["\n", "\r\n", "\r"]))), st.booleans())
def test_whatever_the_form_its_own_text_gives_its_own_bytes(lines: list[tuple[str, str]], bom: bool) -> None:
    data = (BOM if bom else b"") + "".join(map("".join, lines)).encode()
    form = parse(data)
    assert in_form(form.text, form) == data
    cut = data.rstrip(b"\r\n")
    assert in_form(parse(cut).text, parse(cut)) == cut


@pytest.mark.parametrize(("text", "reason"), [("a\0b", "holds a NUL"), ("a\ud800b", "U+D800"), ("x\n\udcff", "U+DCFF")])
def test_a_text_that_cannot_stand_in_a_file_is_refused_before_anything_is_written(
    tmp_path: Path, text: str, reason: str
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("old\n")
    a, b = read_files(tmp_path, write=["a", "b"]).write
    with pytest.raises(FilesRefused) as caught:
        write_files(tmp_path, [Rewrite(a, "new\n"), Rewrite(b, text)])
    assert list(caught.value.reasons) == ["b"]
    assert reason in caught.value.reasons["b"]
    assert (tmp_path / "a").read_text() == "old\n"


def test_the_report_has_lines_and_a_diff(tmp_path: Path) -> None:
    written = rewrite(tmp_path, "one\ntwo\nTHREE\nfour\n", old=b"one\r\ntwo\r\nthree")
    assert (written.path, written.status, written.lines_before, written.lines_after) == ("file.txt", "modified", 3, 4)
    assert written.diff == (
        "--- a/file.txt\n+++ b/file.txt\n@@ -1,3 +1,4 @@\n one\n two\n-three\n\\ No newline at end of file\n"
        "+THREE\n+four\n\\ No newline at end of file\n"
    )
    assert written.warnings == ()


def test_the_diff_of_a_new_file_is_against_nothing(tmp_path: Path) -> None:
    written = rewrite(tmp_path, "one\n", old=None)
    assert written.diff == "--- /dev/null\n+++ b/file.txt\n@@ -0,0 +1,1 @@\n+one\n"
    assert (written.lines_before, written.lines_after) == (0, 1)


def test_a_long_diff_is_cut_after_a_whole_line_and_says_how_much_is_missing(tmp_path: Path) -> None:
    written = rewrite(tmp_path, "".join(f"line {i}\n" for i in range(20_000)), old=b"x\n")
    assert len(written.diff) < 65_600
    *_, last, remark = written.diff.splitlines()
    assert last.startswith("+line ")
    kept = int(last.removeprefix("+line ")) + 1
    assert remark == f"… and {20_000 - kept:,} more lines"


def texts(rng: random.Random) -> tuple[list[str], list[str]]:
    words = [f"{w}\n" for w in "abcdefghij"[: rng.randint(1, 10)]]
    old = [rng.choice(words) for _ in range(rng.randint(0, 60))]
    new = [line for line in old if rng.random() > 0.2]
    for _ in range(rng.randint(0, 5)):
        new.insert(rng.randint(0, len(new)), rng.choice([*words, "new\n"]))
    if new and rng.random() < 0.3:
        new[-1] = new[-1].rstrip("\n")
    return old, new


def test_blocks_are_equal_runs_in_order() -> None:
    rng = random.Random(6)
    for _ in range(300):
        old, new = texts(rng)
        found = blocks(old, new)
        assert found[-1] == (len(old), len(new), 0)
        i = j = 0
        for at, to, size in found[:-1]:
            assert size > 0
            assert at >= i
            assert to >= j
            assert old[at : at + size] == new[to : to + size]
            i, j = at + size, to + size


@pytest.mark.skipif(shutil.which("git") is None, reason="git applies the diffs")
def test_git_makes_the_new_text_from_the_old_one_and_the_diff(tmp_path: Path) -> None:
    rng = random.Random(7)
    subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=30)
    patches: list[str] = []
    expected: dict[str, str] = {}
    while len(patches) < 60:
        old, new = texts(rng)
        if not old or not new or old == new:
            continue
        name = f"f{len(patches)}"
        (tmp_path / name).write_text("".join(old))
        expected[name] = "".join(new)
        patches.append(unified(old, new, names=(f"a/{name}", f"b/{name}"), limit=10**6))
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input="".join(patches), text=True, check=True, timeout=30)
    assert {name: (tmp_path / name).read_text() for name in expected} == expected


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "kind", ["equal lines", "two lines in turn", "every other changed", "reversed", "few words", "each twice"]
)
def test_the_diff_of_two_files_that_difflib_takes_minutes_for_ends_soon(kind: str) -> None:
    size = 65_000  # lines, of 256 KiB
    rng = random.Random(8)
    old, new = {
        "equal lines": (["x\n"] * size, ["x\n"] * (size // 2) + ["y\n"] + ["x\n"] * (size // 3)),
        "two lines in turn": (["a\n", "b\n"] * (size // 2), ["a\n", "a\n", "b\n", "b\n"] * (size // 4)),
        "every other changed": ([f"{i}\n" for i in range(size)], [f"{i}{'!' * (i % 2)}\n" for i in range(size)]),
        "reversed": ([f"{i}\n" for i in range(size)], [f"{i}\n" for i in reversed(range(size))]),
        "each twice": ([f"{i // 2}\n" for i in range(size)], [f"{i // 2 if i % 3 else -i}\n" for i in range(size)]),
        "few words": ([rng.choice("abcdef") for _ in range(size)], [rng.choice("abcdef") for _ in range(size)]),
    }[kind]
    found = blocks(old, new)
    assert found[-1] == (size // 2 * 2 if kind != "two lines in turn" else len(old), len(new), 0)
    if kind == "every other changed":
        assert len(found) == size // 2 + 1


PLACEHOLDERS = """
...
    …
# ... rest of code
# ... rest of the code ...
// ... existing code ...
    // existing code here
/* ... */
<!-- rest of the file -->
-- ... (unchanged)
# ... (existing imports)
    # ... other methods remain unchanged
// rest of the function stays the same
// ...rest of implementation
# The rest of the file remains the same
# rest of the code unchanged
# Remaining code
// remaining methods stay the same
{/* ... existing JSX code ... */}
<unchanged>
<rest of file>
[... unchanged ...]
[unchanged]
(rest of the code)
{{ existing code }}
# code omitted for brevity
# omitted for brevity
; same as before
% unchanged
* ... the rest stays as before
# <snip>
// snip
# your code here
# No changes here
// no changes below
/* previous code remains unchanged */
# (... same as the original ...)
# function unchanged
# Implementation not shown
""".strip("\n").split("\n")

ORDINARY = """
x = [...]
def f(x: int) -> int: ...
    return a[..., 0]
print("...")
# Other imports
# Compute the rest in one pass
# see the code in util.py
// loads the remaining items
# keep existing files
/* Restore the previous state */
* @param rest the remaining arguments
# The file must exist
- ... and so on
# same shape as the input
f(*args, **rest)
<div class="rest">
(a, b) = rest
# https://example.org/a/b/c
"unchanged": 3,
unchanged += 1
# wait...
const {a, ...rest} = props;
<Foo {...rest} />
[...items, last]
# TODO: omit empty lines
{ ...state, other }
(...args) => f(...args)
""".strip("\n").split("\n")


@pytest.mark.parametrize("line", PLACEHOLDERS)
def test_a_line_that_stands_for_code_left_out_is_found(line: str) -> None:
    assert stands_for_more(line)


@pytest.mark.parametrize("line", ORDINARY)
def test_an_ordinary_line_is_not_taken_for_a_placeholder(line: str) -> None:
    assert not stands_for_more(line)


def test_a_placeholder_is_a_warning_unless_the_file_had_that_line(tmp_path: Path) -> None:
    written = rewrite(tmp_path, "def f():\n    ...\n# ... rest of code\n", old=b"def f():\n        ...\n")
    (warning,) = written.warnings
    assert warning == "line 3 looks like a placeholder for code left out: '# ... rest of code'"
    assert rewrite(tmp_path, "a\n...\nb\n", old=b"a\nb\n").warnings[0].startswith("line 2 looks like")


def test_many_warnings_of_a_kind_are_counted(tmp_path: Path) -> None:
    written = rewrite(tmp_path, "".join(f"# ... existing code {i}\n" for i in range(9)), old=b"a\nb\n")
    assert len(written.warnings) == 6
    assert written.warnings[-1] == "… and 4 more of this kind"


@pytest.mark.parametrize(("kept", "warned"), [(100, False), (51, False), (50, False), (49, True), (0, True)])
def test_more_than_half_of_the_lines_lost_is_a_warning(tmp_path: Path, kept: int, warned: bool) -> None:
    old = [f"line {i}\n" for i in range(100)]
    written = rewrite(tmp_path, "".join(old[:kept]), old="".join(old).encode())
    assert [w for w in written.warnings if "more than half" in w] == (
        [f"more than half of the lines are gone: 100 that are not empty became {kept}"] if warned else []
    )


@pytest.mark.parametrize("c", ["\u202e", "\u200b", "\x1b", "\u00a0", "\U000e0041", "\ue000"])
def test_a_character_that_does_not_show_is_a_warning_unless_the_file_held_it(tmp_path: Path, c: str) -> None:
    warnings = rewrite(tmp_path, f"a\n\tb{c}\n", old=b"a\n\tb\n").warnings
    assert warnings == (f"line 2 holds a character that does not show (U+{ord(c):04X}), and the file held none",)
    assert rewrite(tmp_path, f"a{c}\nb\n", old=f"x{c}\nb\n".encode()).warnings == ()


@pytest.mark.timeout(20)
def test_lines_without_end_do_not_slow_the_warnings_down(tmp_path: Path) -> None:
    for text in (
        "# " + "rest of " * 30_000,
        "#" * 250_000,
        "# " + "." * 250_000,
        "<" * 250_000,
        "# " + "existing " * 25_000,
    ):
        rewrite(tmp_path, text, old=b"a\n")
