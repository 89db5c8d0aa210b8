"""Compares what we say to Codex, and rely on, with the schema that a `codex` makes of itself.

    uv run python tools/codex_schema.py                     the codex that a run would use
    uv run python tools/codex_schema.py --codex PATH
    uv run python tools/codex_schema.py --schema FOLDER     one that was generated before
    uv run python tools/codex_schema.py --json              {"version": …, "broken": […], "news": […]}

Exit status: 0 when nothing that we rely on has changed, else 1. `news` is the rest: look at it when the pinned version
is raised. 2: there is no schema to look at.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import anyio
from jsonschema import Draft7Validator

from subagent_codex._binary import locate
from subagent_codex._bounds import Bounds
from subagent_codex._failures import ERRORS
from subagent_codex._methods import ASKED, PINNED, READ, SENT
from subagent_codex._notices import NOTICES, PASSED
from subagent_codex._requests import KINDS
from subagent_codex._turn import Turn
from subagent_codex.options import CodexOptions
from subagent_process import RpcError, child_env
from subagents import StartError

JsonObject = dict[str, Any]

BUNDLE = "codex_app_server_protocol.schemas.json"
LIMIT = 60  # seconds for each start of codex
SAMPLES: Mapping[str, JsonObject] = {
    "item/tool/requestUserInput": {"questions": [{"id": "q", "header": "h", "question": "?"}]},
    "item/permissions/requestApproval": {
        "permissions": {
            "network": {"enabled": True},
            "fileSystem": {
                "read": None,
                "write": ["/w"],
                "entries": [{"path": {"type": "path", "path": "/w"}, "access": "write"}],
            },
        }
    },
    "mcpServer/elicitation/request": {"mode": "form", "message": "?", "requestedSchema": {}},
}
"""Params of requests whose answers depend on them."""


class Schema:
    """A schema as it was generated.

    Raises:
        ValueError, LookupError: it is none.
    """

    def __init__(self, bundle: JsonObject) -> None:
        self.bundle, self.definitions = bundle, cast("JsonObject", bundle["definitions"])
        self.sent = self._methods("ClientRequest")
        self.asked = self._methods("ServerRequest")
        self.told = self._methods("ServerNotification")

    def _methods(self, name: str) -> dict[str, str]:
        """Each method with the name of its params."""
        variants = self.definitions[name]["oneOf"]
        return {v["properties"]["method"]["enum"][0]: _referred(v["properties"].get("params", {})) for v in variants}

    def find(self, name: str) -> JsonObject:
        """A definition by its name, of the newer vocabulary if it is there; empty if there is none."""
        return self.definitions.get("v2", {}).get(name) or self.definitions.get(name, {})

    def variants(self, name: str) -> list[JsonObject]:
        """The shapes that an object of this name may have, each with what all of them share."""
        found = self.find(name)
        fields: JsonObject = found.get("properties", {})
        needed: list[str] = found.get("required", [])
        forms: list[JsonObject] = found.get("oneOf") or found.get("anyOf") or [{}]
        return [
            {"properties": fields | form.get("properties", {}), "required": needed + form.get("required", [])}
            for form in forms
        ]

    def fields(self, name: str) -> set[str]:
        """Everything that an object of this name may hold."""
        return {field for variant in self.variants(name) for field in variant["properties"]}

    def takes(self, name: str, value: Any) -> bool:
        """Whether a value has the shape of that name."""
        place = "#/definitions/" + ("v2/" if name in self.definitions.get("v2", {}) else "") + name
        return Draft7Validator({"$ref": place, "definitions": self.definitions}).is_valid(value)  # pyright: ignore[reportUnknownMemberType]

    def errors(self) -> set[str]:
        """The values of codexErrorInfo."""
        forms = self.find("CodexErrorInfo")["anyOf"]
        return {value for form in forms for value in (*form.get("enum", ()), *form.get("properties", ()))}


def _referred(schema: JsonObject) -> str:
    """The name behind a reference, also one that may be null; empty where there is none."""
    for form in (schema, *schema.get("anyOf", ())):
        if "$ref" in form:
            return str(form["$ref"]).rsplit("/", 1)[-1]
    return ""


# -- what is compared --------------------------------------------------------------------------------------------------


def broken(schema: Schema) -> Iterator[str]:
    """What we rely on and is not so."""
    for method, sent in SENT.items():
        if method not in schema.sent:
            yield f"request {method}: it is gone"
            continue
        params, answer = schema.sent[method], schema.sent[method].removesuffix("Params") + "Response"
        yield from _params(method, schema.variants(params), set(sent.always), set(sent.sometimes))
        for field in sorted(set(sent.read) - schema.fields(answer)):
            yield f"request {method}: its answer has no {field} any more"
    for method, params in schema.asked.items():
        if method not in ASKED:
            yield f"server request {method}: it is new, and is answered with 'method not found'"
            continue
        for field in sorted(schema.fields(params) ^ set(ASKED[method])):
            yield f"server request {method}: {field} is {'new' if field in schema.fields(params) else 'gone'}"
        yield from _answers(schema, method, params)
    for method, read in READ.items():
        if method not in schema.told:
            yield f"notification {method}: it is gone"
            continue
        for field in sorted(set(read) - schema.fields(schema.told[method])):
            yield f"notification {method}: it has no {field} any more"


def news(schema: Schema) -> Iterator[str]:
    """What has changed beside that."""
    for method in ASKED.keys() - schema.asked.keys():
        yield f"server request {method}: it is gone"
    for method in schema.told.keys() - READ.keys() - NOTICES.keys() - PASSED:
        yield f"notification {method}: it is new, and is counted as unknown"
    for value in schema.errors() - ERRORS.keys():
        yield f"codexErrorInfo {value}: it is new, and is classified by its text"


def _params(method: str, variants: list[JsonObject], always: set[str], sometimes: set[str]) -> Iterator[str]:
    """One shape of the params has to take what we send, and nothing that it needs may be missing."""
    faults = [
        [
            *(
                f"it does not take {field} any more"
                for field in sorted((always | sometimes) - variant["properties"].keys())
            ),
            *(f"it needs {field}" for field in sorted(set(variant["required"]) - always)),
        ]
        for variant in variants
    ]
    for fault in min(faults, key=len):
        yield f"request {method}: {fault}"


def _answers(schema: Schema, method: str, params: str) -> Iterator[str]:
    """Each word that we may answer has to have the shape of the answer."""
    turn = Turn(lambda _: None, accepted=lambda: None, ended=lambda: None, cwd="/w")
    bounds = Bounds(turn, "never", "read-only", ("/w",), (), network=False)
    try:
        words = KINDS[method](SAMPLES.get(method, {}), bounds).words
    except RpcError:  # it is answered with an error
        return
    for word, answer in words.items():
        if not schema.takes(params.removesuffix("Params") + "Response", answer):
            yield f"server request {method}: {json.dumps(answer)} ({word}) is no answer any more"


# -- where it comes from -----------------------------------------------------------------------------------------------


def generate(codex: Path, folder: Path) -> str:
    """Let a codex write its schema; its version.

    Raises:
        OSError, subprocess.SubprocessError: it does not.
    """
    env = child_env(minimal=True, set={"CODEX_HOME": str(folder), "HOME": str(folder)})
    argv = [str(codex), "app-server", "generate-json-schema", "--experimental", "--out", str(folder)]
    for command in (argv, [argv[0], "--version"]):
        done = subprocess.run(
            command, env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=True
        )
    return done.stdout.decode(errors="replace").split()[-1]


def main() -> int:
    """Compare, tell, and return the exit status."""
    about, _, more = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=about, epilog=more, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--codex", type=Path, help="the binary; else the one that a run would use")
    source.add_argument("--schema", type=Path, help="the folder of a schema that was generated before")
    parser.add_argument("--json", action="store_true", help="tell it as JSON")
    given = parser.parse_args()
    version: str | None = None
    try:
        with tempfile.TemporaryDirectory() as temporary:
            folder = given.schema or Path(temporary)
            if given.schema is None:
                binary = anyio.run(locate, CodexOptions.model_validate({"executable": given.codex}))
                version = generate(binary.path, folder)
            schema = Schema(json.loads((folder / BUNDLE).read_bytes()))
        found = {"version": version, "broken": [*broken(schema)], "news": sorted(news(schema))}
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, StartError) as error:
        sys.stderr.write(f"there is no schema to look at: {error!r}\n")
        return 2
    sys.stdout.write(json.dumps(found, indent=2) + "\n" if given.json else _text(version, found))
    return 1 if found["broken"] else 0


def _text(version: str | None, found: Mapping[str, Any]) -> str:
    lines = [f"codex {version or 'of that schema'}; our tables are for {PINNED}"]
    for kind in ("broken", "news"):
        lines += [f"{kind}: {line}" for line in found[kind] or ["nothing"]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
