"""How many of ten small edits the embedded model gets right.  Goal: 8 of 10 with the default one.

Takes minutes, and says nothing where that model (1.1 GB) has not been pulled; another one by its name:
`python -m benchmarks.local_edits smollm2-135m`.  Each edit is one file of 6 to 18 lines, a task in one sentence, and
code that says whether the file does it now and still does what it did.  The temperature is 0; only the boundary in the
prompt differs from run to run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

import anyio

import subagents
from subagent_local import Local

GOAL: Final = 8


class Edit(NamedTuple):
    """One edit."""

    path: str
    text: str
    task: str
    check: str


EDITS: Final[dict[str, Edit]] = {
    "add func": Edit(
        "calc.py",
        '''\
"""Small arithmetic helpers."""


def add(a, b):
    """Return the sum of a and b."""
    return a + b


def subtract(a, b):
    """Return a minus b."""
    return a - b


PI = 3.14159
''',
        "Add a function multiply(a, b) that returns the product of a and b, with a docstring. Keep everything else.",
        """import calc
assert calc.multiply(3,4)==12
assert calc.multiply.__doc__
assert calc.add(1,2)==3
assert calc.subtract(5,2)==3
assert calc.PI==3.14159""",
    ),
    "docstring": Edit(
        "shapes.py",
        """\
import math


def circle_area(r):
    return math.pi * r ** 2


def square_area(s):
    return s * s


def triangle_area(b, h):
    return 0.5 * b * h
""",
        "Add a one-line docstring to each of the three functions. Do not change their behaviour.",
        """import shapes,math
assert all(f.__doc__ for f in (shapes.circle_area,shapes.square_area,shapes.triangle_area))
assert shapes.square_area(3)==9
assert shapes.triangle_area(2,3)==3
assert abs(shapes.circle_area(1)-math.pi)<1e-9""",
    ),
    "fix bug": Edit(
        "stats.py",
        """\
def mean(xs):
    return sum(xs) / len(xs)


def median(xs):
    xs = sorted(xs)
    n = len(xs)
    return xs[n // 2]


def total(xs):
    return sum(xs)
""",
        "Fix median so that for an even number of values it returns the mean of the two middle values.",
        """import stats
assert stats.median([1,2,3,4])==2.5
assert stats.median([3,1,2])==2
assert stats.mean([1,3])==2
assert stats.total([1,2])==3""",
    ),
    "rename": Edit(
        "greet.py",
        """\
def greet(nm):
    msg = "Hello, " + nm + "!"
    return msg


def shout(nm):
    return greet(nm).upper()


if __name__ == "__main__":
    print(greet("world"))
    print(shout("world"))
""",
        "Rename the parameter nm to name in both functions.",
        """import greet,inspect
assert list(inspect.signature(greet.greet).parameters)==["name"]==list(inspect.signature(greet.shout).parameters)
assert greet.greet(name="Bo")=="Hello, Bo!" and greet.shout("a")=="HELLO, A!"
assert "__main__" in open("greet.py").read()""",
    ),
    "type hints": Edit(
        "text.py",
        '''\
def count_words(text):
    """Count the words in text."""
    return len(text.split())


def first_line(text):
    """Return the first line of text."""
    return text.splitlines()[0] if text else ""


SEPARATOR = ", "
''',
        "Add type hints to the parameters and return values of both functions.",
        r"""import text,typing
assert typing.get_type_hints(text.count_words)=={"text":str,"return":int}
assert typing.get_type_hints(text.first_line)=={"text":str,"return":str}
assert text.count_words("a b")==2
assert text.first_line("x\ny")=="x"
assert text.SEPARATOR==", "
assert text.count_words.__doc__""",
    ),
    "method": Edit(
        "stack.py",
        '''\
class Stack:
    """A simple stack."""

    def __init__(self):
        self._items = []

    def push(self, item):
        self._items.append(item)

    def pop(self):
        return self._items.pop()

    def __len__(self):
        return len(self._items)
''',
        "Add a method peek that returns the top item without removing it.",
        """import stack
s=stack.Stack()
s.push(1)
s.push(2)
assert s.peek()==2 and len(s)==2 and s.pop()==2 and len(s)==1""",
    ),
    "validate": Edit(
        "account.py",
        """\
class Account:
    def __init__(self, balance=0):
        self.balance = balance

    def deposit(self, amount):
        self.balance += amount

    def withdraw(self, amount):
        self.balance -= amount
        return self.balance
""",
        'Make withdraw raise ValueError("insufficient funds") when amount is greater than the balance.',
        """import account; a=account.Account(10); assert a.withdraw(4)==6
try: a.withdraw(100); raise SystemExit("no error")
except ValueError as e: assert "insufficient funds" in str(e)
assert a.balance==6; a.deposit(1); assert a.balance==7""",
    ),
    "default arg": Edit(
        "parse.py",
        '''\
def split_line(line, sep):
    """Split a line and strip each part."""
    return [part.strip() for part in line.split(sep)]


def join_parts(parts, sep):
    """Join parts with sep."""
    return sep.join(parts)
''',
        'Give the sep parameter of both functions the default value ",".',
        """import parse
assert parse.split_line("a, b")==["a","b"]
assert parse.join_parts(["a","b"])=="a,b"
assert parse.split_line("a;b",";")==["a","b"]""",
    ),
    "regex quote": Edit(
        "slug.py",
        '''\
import re


def slugify(title):
    """Turn a title into a slug."""
    s = title.lower()
    s = re.sub(r"[^a-z0-9]+", "-", s)
    return s.strip("-")
''',
        'Add a function unslug(slug) that replaces each "-" with a space and capitalizes the first letter of every '
        'word, e.g. "hello-big-world" becomes "Hello Big World".',
        r'''import slug
assert slug.unslug("hello-big-world")=="Hello Big World"
assert slug.slugify("Hello, \"World\"!")=="hello-world"''',
    ),
    "logging": Edit(
        "load.py",
        """\
import json


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def save(path, data):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(data, f, indent=2)
""",
        "Make load return {} when the file does not exist.",
        """import load,os
assert load.load("nope.json")=={}
load.save("z.json",{"a":1})
assert load.load("z.json")=={"a":1}
os.remove("z.json")""",
    ),
}


def attempt(local: Local, edit: Edit) -> str:
    """What came of it: "" when the file is right, else what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, edit.path)
        path.write_text(edit.text)
        result = subagents.run_sync(local, edit.task, cwd=folder, write=(edit.path,))
        if result.failure is not None:
            assert path.read_text() == edit.text, "it failed, and yet the file has changed"
            return f"{result.failure.kind}: {result.failure.message}"
        code = f"import sys; sys.path.insert(0, '.')\n{edit.check}"
        done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=20)
        return (done.stderr.strip().splitlines() or ["it failed"])[-1] if done.returncode else ""


def main() -> None:
    names = [name for name in sys.argv[1:] if not name.isdigit()]  # a number is for another benchmark
    local = Local(model=names[0]) if names else Local()
    probe = anyio.run(local.probe)
    if probe.path is None:
        print(f"local: no edits, since {probe.detail or 'the model is not here'}")
        return
    print(f"local: ten small edits by {local.options.model}")
    right = 0
    for name, edit in EDITS.items():
        began = time.perf_counter()
        wrong = attempt(local, edit)
        right += not wrong
        print(f"  {name:<14} {time.perf_counter() - began:6.1f} s  {wrong[:150] or 'right'}", flush=True)
    print(f"  {right} of {len(EDITS)} (goal: {GOAL})")


if __name__ == "__main__":
    main()
