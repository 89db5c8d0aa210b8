"""Every configuration key that we set, as data: `-c` arguments for the process, a nested object for the thread.

What is secret or long goes into `thread/start`; the rest are arguments, which `--strict-config` checks like a file.
Trust is given nested: the dotted form is ignored, and the engine then trusts the folder by itself and starts the
programs that its `.codex/config.toml` names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from subagent_codex._roots import Access
from subagent_codex.options import CodexOptions, Sandbox

Value: TypeAlias = "bool | int | str | list[Value] | dict[str, Value]"
Settings: TypeAlias = dict[str, Value]

DEFAULT_MODEL: Final = "gpt-5.5"
"""In a home of ours.  The engine's own default speaks through a second program ("code mode") and names no tools."""

_ASKED: Final = ("read-only", "workspace-write", "danger-full-access")
_WIDTHS: Final = ("readOnly", "workspaceWrite", "dangerFullAccess")

PROFILE: Final = "subagents"
"""The permission profile that we define for `workspace-write`."""

PROVIDER: Final = "subagents"
"""The model provider that we define: the built-in one takes no bounds for its retries."""

_HEADLESS: Final[Settings] = {
    "check_for_update_on_startup": False,
    "features.unbounded_connection_retries": False,  # else an unreachable endpoint never fails
    "features.shell_snapshot": False,  # else a file of mode 0644 holds the whole environment
}
_HERMETIC: Final[Settings] = {
    "analytics.enabled": False,
    "otel.exporter": "none",
    "otel.metrics_exporter": "none",
    "otel.trace_exporter": "none",
    "features.plugins": False,  # else github.com, api.github.com and chatgpt.com are contacted
    "features.apps": False,
    "project_doc_max_bytes": 0,  # we read it ourselves, where it is wanted: see `_instructions`
    "skills.include_instructions": False,
    "skills.bundled.enabled": False,
    "allow_login_shell": False,  # else /etc/profile resets PATH
    "shell_environment_policy.inherit": "none",  # else tools see every variable of the engine
}


def toml(value: Value) -> str:
    """A value in TOML's inline form, in ASCII."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            # JSON's escapes are TOML's, but for characters beyond the first plane and DEL.
            text = "".join(f"\\U{ord(c):08x}" if ord(c) > 0xFFFF or c == "\x7f" else json.dumps(c)[1:-1] for c in value)
            return f'"{text}"'
        case list():
            return f"[{', '.join(map(toml, value))}]"
        case dict():
            return "{" + ", ".join(f"{toml(name)} = {toml(item)}" for name, item in value.items()) + "}"


def arguments(settings: Settings) -> Iterator[str]:
    """The settings as arguments of `codex`."""
    for key, value in settings.items():
        yield "-c"
        yield f"{key}={toml(value)}"


def process_settings(options: CodexOptions, cwd: str, *, keyed: bool, trust: bool) -> Settings:
    """What the process is started with.

    Args:
        options: of the provider.
        cwd: the working folder of the task.
        keyed: there is an API key; it is then kept in memory only.
        trust: say that the folder is not trusted.  False where the person's own configuration speaks about it.
    """
    found = dict(_HEADLESS)
    if options.home != "inherit":
        found |= _HERMETIC
        found["web_search"] = "live" if options.web_search else "disabled"
    if options.home == "isolated" or keyed:
        found["cli_auth_credentials_store"] = "ephemeral"
    if trust:
        found["projects"] = {cwd: {"trust_level": "untrusted"}}
    if own_provider(options, keyed=keyed):
        found["model_provider"] = PROVIDER
        found[f"model_providers.{PROVIDER}"] = _provider(options)
    return found


def bare_settings() -> Settings:
    """What prepares the databases of a home: no path, no key, no model provider."""
    return _HEADLESS | _HERMETIC | {"cli_auth_credentials_store": "ephemeral"}


def own_provider(options: CodexOptions, *, keyed: bool) -> bool:
    """Whether the models are reached as we say, and not as the person's configuration says."""
    return options.home != "inherit" or keyed or options.base_url is not None


def _provider(options: CodexOptions) -> dict[str, Value]:
    found: dict[str, Value] = {
        "name": PROVIDER,
        "wire_api": "responses",
        "supports_websockets": False,
        "requires_openai_auth": options.base_url is None,
        "request_max_retries": options.request_max_retries,
        "stream_max_retries": options.stream_max_retries,
        "stream_idle_timeout_ms": max(1, round(options.stream_idle_timeout * 1000)),
    }
    if options.base_url is not None:
        found["base_url"] = options.base_url
    return found


def thread_config(
    options: CodexOptions,
    *,
    key: str | None,
    tools: Mapping[str, str],
    filesystem: Mapping[str, Access],
    hidden: Sequence[str] = (),
) -> dict[str, Any]:
    """`thread/start.config`: the environment of tools, what they may write, and the key of a provider of one's own.

    Args:
        options: of the provider.
        key: the API key.
        tools: the whole environment of a tool.
        filesystem: absolute paths beside the working folder that are open for writing, or closed in one that is.
        hidden: variables that commands do not get in the person's home.
    """
    found: dict[str, Any] = {}
    if options.base_url is not None and key is not None:
        found["model_providers"] = {PROVIDER: {**_provider(options), "experimental_bearer_token": key}}
    if options.home != "inherit":
        # "none": with "core" the engine's own HOME and TMPDIR would shine through.
        found["shell_environment_policy"] = {"inherit": "none", "set": dict(tools)}
    elif hidden:
        found["shell_environment_policy"] = {"exclude": list(hidden)}
    if profiled(options):
        # /tmp is closed: the homes of all runs lie there.  Not ":tmpdir": that would be TMPDIR of the tools.
        paths = {":slash_tmp": "read", **filesystem}
        profile = {
            "extends": ":workspace",
            "filesystem": paths,
            "network": {"enabled": options.network_access},
        }
        found |= {"default_permissions": PROFILE, "permissions": {PROFILE: profile}}
    elif options.sandbox == "workspace-write":
        found["sandbox_workspace_write"] = {
            "writable_roots": [path for path, access in filesystem.items() if access == "write"],
            "network_access": options.network_access,
            "exclude_slash_tmp": True,
        }
    return found


def wider(answered: str | None, asked: Sandbox) -> bool:
    """Whether the sandbox of the engine's answer (`readOnly`, `workspaceWrite`, …) lets more than was asked for."""
    return answered in _WIDTHS and _WIDTHS.index(answered) > _ASKED.index(asked)


def profiled(options: CodexOptions) -> bool:
    """Whether the sandbox is a permission profile of ours: only one can close something in a folder that it opens.

    A `sandbox_mode` in the person's own configuration would win over it.
    """
    return options.sandbox == "workspace-write" and options.home != "inherit"
