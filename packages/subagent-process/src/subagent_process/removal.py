"""Which ambient variables a child does not get, and why.  Tables first; the order of ``_RULES`` decides the reason.

Names are compared word by word: ``OPENAI_API_KEY2``, ``openaiApiKey`` and ``npm_config_//host/:_authToken`` are split
at everything that is no letter (digits too) and at camel humps.  So ``MONKEY_MODE``, ``KEYBOARD_LAYOUT``,
``TOKENIZERS_PARALLELISM`` and ``SECRETARY`` pass.

Decisions in doubt:

- ``GPG_KEY`` passes: in the official Python images it is the fingerprint of a *public* key.  So does ``…PUBLIC_KEY``.
- ``SSH_AUTH_SOCK`` goes: an agent's socket is the use of every key in it.  So do ``KRB5CCNAME`` and the askpass
  programs.
- What is only a pointer goes when the file is nothing but a credential (``GOOGLE_APPLICATION_CREDENTIALS``,
  ``PGPASSFILE``, ``AWS_WEB_IDENTITY_TOKEN_FILE``), and passes when it is a configuration that a tool needs
  (``KUBECONFIG``, ``DOCKER_CONFIG``, ``AWS_PROFILE``).
- ``MAX_TOKENS``, ``TOKENS_PER_MINUTE`` pass: they count.  ``MAX_API_KEY`` goes: a product may be called so.  So does
  ``INPUT_TOKEN``: that is how GitHub passes secrets to actions.
- What ends in an attribute passes (``TOKEN_LIMIT``, ``KEY_PREFIX``, ``COOKIE_DOMAIN``, ``PASSWORD_MIN_LENGTH``).
- ``ENV`` goes when it is a path, which ``sh`` would run at its start, and passes as ``ENV=production``.
- Proxies, package indexes and database URLs pass unless they carry a password.  Over http(s), and to a proxy, a user
  alone counts as one (``https://TOKEN@host``, ``https://TOKEN:@host``), and so does a key in the query
  (``?key=TOKEN``).  ``ssh://git@host`` and ``postgres://app@db`` pass.  So does a Sentry DSN: what stands before its
  ``@`` is public.  A token that is a part of the path (``https://host/TOKEN/npm/``) looks like every other path.
- ``NODE_EXTRA_CA_CERTS``, ``SSL_CERT_FILE`` and their kind pass: behind a company's proxy nothing works without them.
- Variables of coding agents (``CLAUDE_*``, ``CODEX_*`` …) go as a whole, settings included: a backend passes on what
  it stands for.  Those of a model's service that are no secret (``ANTHROPIC_BASE_URL``) pass.
- ``LD_LIBRARY_PATH`` goes with the other loader variables; ``passing`` brings it back where a system needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Literal, TypeAlias

__all__ = ["Reason", "removal_reason"]

Reason: TypeAlias = Literal["credential", "session-marker", "loader", "git-location", "own-environment"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# `git rev-parse --local-env-vars` (git 2.39), and the rest of what moves or configures a repository.
_GIT = _names("""
    GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_PREFIX GIT_NAMESPACE GIT_IMPLICIT_WORK_TREE GIT_INTERNAL_SUPER_PREFIX
    GIT_INDEX_FILE GIT_INDEX_VERSION GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_QUARANTINE_PATH
    GIT_GRAFT_FILE GIT_SHALLOW_FILE GIT_REPLACE_REF_BASE GIT_NO_REPLACE_OBJECTS GIT_CONFIG
""")
_GIT_PREFIXES = ("GIT_CONFIG_",)

_MARKERS = _names("""
    CLAUDECODE CLAUDE CODEX GEMINI_CLI OPENCODE AIDER CLINE_ACTIVE ROO_ACTIVE QWEN_CODE CRUSH TRAE_AI_SHELL_ID
    AGENT AI_AGENT
""")
_NO_MARKERS = _names("CURSOR_THEME CURSOR_SIZE AMP_URL GOOSE_DRIVER GOOSE_DBSTRING GOOSE_MIGRATION_DIR GOOSE_TABLE")
_MARKER_PREFIXES = (
    "CLAUDE_", "CODEX_", "CURSOR_", "GEMINI_CLI_", "AIDER_", "OPENCODE_", "COPILOT_", "GOOSE_", "WINDSURF_",
    "QWEN_CODE_", "AMP_",
)  # fmt: skip

# What makes a program load, run or look for code that its user did not name.
_LOADER = _names("""
    LIBPATH SHLIB_PATH GCONV_PATH GLIBC_TUNABLES LOCPATH NLSPATH HOSTALIASES MALLOC_CHECK_
    OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES GTK_MODULES GTK_PATH QT_PLUGIN_PATH
    NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE NODE_V8_COVERAGE NODE_CHANNEL_FD NODE_INSPECT_RESUME_ON_START
    BUN_OPTIONS BUN_CONFIG_PRELOAD
    PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PYTHONEXECUTABLE PYTHONPLATLIBDIR PYTHONBREAKPOINT
    PYTHONINSPECT PYTHONWARNINGS PYTHONDEBUG PYTHONTRACEMALLOC PYTHONFAULTHANDLER PYTHONMALLOC
    BASH_ENV SHELLOPTS BASHOPTS PROMPT_COMMAND PS4 CDPATH GLOBIGNORE IFS ZDOTDIR LESSOPEN LESSCLOSE
    PERL5OPT PERL5LIB PERL5DB PERLLIB PERL5SHELL RUBYOPT RUBYLIB RUBYSHELL
    JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_OPTIONS CLASSPATH
    PHPRC PHP_INI_SCAN_DIR LUA_PATH LUA_CPATH TCLLIBPATH GUILE_LOAD_PATH JULIA_LOAD_PATH
    R_PROFILE R_PROFILE_USER R_ENVIRON R_ENVIRON_USER ERL_FLAGS ERL_AFLAGS ERL_ZFLAGS ERL_LIBS ELIXIR_ERL_OPTIONS
    DOTNET_STARTUP_HOOKS DOTNET_ADDITIONAL_DEPS DOTNET_SHARED_STORE
    GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_EXTERNAL_DIFF
""")
_NO_LOADER = _names("LD_FLAGS")
_LOADER_PREFIXES = ("LD_", "DYLD_", "__XPC_DYLD_", "BASH_FUNC_", "BUN_INSPECT", "LUA_INIT", "COR_", "CORECLR_")

_OWN = _names("""
    VIRTUAL_ENV VIRTUAL_ENV_PROMPT VIRTUAL_ENV_DISABLE_PROMPT __PYVENV_LAUNCHER__
    _OLD_VIRTUAL_PATH _OLD_VIRTUAL_PS1 _OLD_VIRTUAL_PYTHONHOME
    UV_PROJECT_ENVIRONMENT UV_RUN_RECURSION_DEPTH POETRY_ACTIVE PIPENV_ACTIVE PDM_PROJECT_ROOT HATCH_ENV_ACTIVE
    PIXI_PROJECT_ROOT TOX_ENV_DIR TOX_ENV_NAME TOX_WORK_DIR NOX_CURRENT_SESSION PYTEST_CURRENT_TEST PYTEST_VERSION
    COVERAGE_PROCESS_START COVERAGE_PROCESS_CONFIG COV_CORE_SOURCE COV_CORE_CONFIG COV_CORE_DATAFILE
""")
_OWN_PREFIXES = ("CONDA_", "_CE_", "PYTEST_XDIST_")

_CREDENTIALS = _names("""
    SSH_AUTH_SOCK GPG_AGENT_INFO KRB5CCNAME KRB5_KTNAME X509_USER_PROXY BW_SESSION
    GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS VSCODE_GIT_IPC_HANDLE
    NETRC PGPASSFILE MYSQL_PWD SSHPASS BINDPW LDAP_BINDPW SSLKEYLOGFILE REGISTRY_AUTH_FILE
""")
_CREDENTIAL_PREFIXES = ("OP_SESSION_", "VSCODE_GIT_ASKPASS_")
_HARMLESS = _names("GPG_KEY GPG_KEYS PWD OLDPWD")

# One of these words anywhere in the name.
_SECRET_WORDS = _names("""
    KEY KEYS APIKEYS TOKEN TOKENS SECRET SECRETS PASSWORD PASSWORDS PASSWD PASSPHRASE PASSPHRASES PASSCODE PW
    CREDENTIAL CREDENTIALS CRED CREDS COOKIE COOKIES JWT BEARER AUTHORIZATION MNEMONIC
""")
# Only as the last word, for AUTH_URL and PASS_COUNT are none; and not where the value only says yes or no.
_LAST_WORDS = _names("PASS PAT AUTH OAUTH PSK OTP WEBHOOK WEBHOOKS HEADERS")
_YES_OR_NO = _names("true false yes no on off 0 1")
_NO_PASS = _names("BYPASS COMPASS ENCOMPASS TRESPASS SURPASS OVERPASS UNDERPASS")
_PAIRS = {
    ("CONNECTION", "STRING"), ("CONN", "STR"), ("WEBHOOK", "URL"), ("AUTH", "CONFIG"), ("AUTH", "HEADER"),
    ("AUTH", "IDENT"), ("AUTH", "JSON"), ("PASS", "PHRASE"), ("PASS", "WORD"), ("SEED", "PHRASE"), ("TOTP", "SEED"),
    ("WALLET", "SEED"),
}  # fmt: skip
# As the last word they make a name one about a secret: a limit, a prefix, a domain.
_ATTRIBUTES = _names("""
    SIZE LENGTH LEN COUNT LIMIT BUDGET TTL TIMEOUT EXPIRY EXPIRES EXPIRATION AGE INTERVAL DELAY RATE REPEAT
    PREFIX SUFFIX ALGORITHM ALGO ALG TYPE FORMAT ENCODING CHARSET PATTERN REGEX VERSION POLICY ROTATION
    DOMAIN SECURE SAMESITE HTTPONLY ENABLED DISABLED REQUIRED BACKEND HELPER PROVIDER LAYOUT BINDINGS PARALLELISM
""")
# Words written together.  Not KEY: MONKEY, HOTKEY and TURKEY end like it.
_ENDINGS = (
    "PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "TOKEN", "APIKEY", "ACCESSKEY", "SECRETKEY", "PRIVATEKEY", "AUTHKEY",
    "MASTERKEY", "CREDENTIALS", "SSHKEY", "PRIVKEY", "SIGNINGKEY", "ENCRYPTIONKEY", "DEPLOYKEY", "APPKEY", "LICENSEKEY",
    "SECRETKEYBASE",
)  # fmt: skip
_NO_SECRET = {  # the word, and the neighbours that make it none
    "KEY": {(word, "KEY") for word in _names("PUBLIC PUBLISHABLE SORT PARTITION FOREIGN CACHE HOT KMS")},
    "KEYS": {("PUBLIC", "KEYS")},
    "TOKEN": {("TOKEN", "URL"), ("TOKEN", "URI"), ("TOKEN", "ENDPOINT")},
}
_COUNTING = _names("MAX MIN NUM NUMBER COUNT LIMIT BUDGET LENGTH SIZE TOTAL TIMEOUT TTL PER")
_COUNTED = _names("INPUT OUTPUT CONTEXT THINKING PROMPT COMPLETION REASONING")  # INPUT_TOKENS; INPUT_TOKEN is one

_BUNDLER = re.compile(r"BUNDLE_\w+__")  # BUNDLE_GITHUB__COM=user:token
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

# A user may be an address: https://anna@corp.org:password@host.
URL_PASSWORD = re.compile(r"""(?P<front>\b[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s/?#:"]*:)(?P<password>[^\s/?#]+)(?=@)""")
# A token in the place of the user: nothing behind it, or what GitHub and others let stand for a password.
URL_TOKEN = re.compile(
    r"""(?P<front>\b(?i:https?|ftps?)://)(?P<token>[^\s/?#:@"'<>]+)(?=(?::(?:x|x-oauth-basic)?)?@)"""
)
_QUERY_NAMES = "sig | signature | x-amz-signature | x-goog-signature | key | token"
URL_KEY = re.compile(rf"""(?ix) (?P<front>[?&](?:{_QUERY_NAMES})=) (?P<key>[^\s"'&;,\#]{{8,}})""")
_SETTING = re.compile(
    rf"""(?ix)
    (?: ^ | [;\s?&,"'{{(._-] )
    (?: password | passwd | pwd | passphrase | accountkey | sharedaccesskey | sharedaccesssignature
      | (?:client[_-]?)?secret | secretaccesskey | api[_-]?key | (?:access|auth|refresh)?[_-]?token
      | (?<=[?&]) (?:{_QUERY_NAMES}) )
    (?: \s*=\s* [^;&\s] | "\s*:\s*"[^"] )"""
)
_GO_DSN = re.compile(r"^[^\s:@/]+:[^\s@]+@(?:[a-z0-9]+)?\(")
# Of any scheme, or of none: curl takes that too.
_PROXY_LOGIN = re.compile(r"^(?:[A-Za-z][\w+.-]*://)?[^\s@/]+@[\w.-]+(?::\d+)?(?:/|$)")

# The shapes of well-known keys, whatever the variable is called.  Bounded, so that no text makes the search quadratic.
KEY_SHAPES = re.compile(
    r"""\b(?:
        sk-(?=[\w-]{0,64}\d)[\w-]{16,}                                               # OpenAI, Anthropic and many others
      | AIza[\w-]{30,} | ya29\.[\w-]{20,} | (?:AKIA|ASIA)[A-Z0-9]{16}                # Google, AWS
      | gh[pousr]_[A-Za-z0-9]{20,} | github_pat_\w{20,} | glpat-[\w-]{16,}            # GitHub, GitLab
      | npm_[A-Za-z0-9]{30,} | pypi-[\w-]{32,} | hf_[A-Za-z0-9]{20,}                  # registries
      | gsk_[A-Za-z0-9]{20,} | xai-[A-Za-z0-9]{20,} | r8_[A-Za-z0-9]{20,}
      | xox[abeoprs]-[\w-]{10,} | [sr]k_(?:live|test)_\w{16,} | dop_v1_[a-f0-9]{32,}  # Slack, Stripe, DigitalOcean
      | AGE-SECRET-KEY-1\w{40,} | whsec_\w{16,} | lin_(?:api|oauth)_\w{20,} | (?:pplx|nvapi|tskey)-[\w-]{20,}
      | sbp_[a-f0-9]{30,} | dckr_(?:pat|oat)_[\w-]{16,} | ATATT3[\w-]{20,} | gl(?:sa|rt|cbt|ptt)[-_][\w-]{16,}
      | SG\.[\w-]{16,}\.[\w-]{16,} | eyJ[\w-]{8,2048}\.[\w-]{8,}(?:\.[\w-]*)?         # SendGrid, JWT
    )(?![\w-])
    | -----BEGIN[ ][A-Z ]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----
      (?: [\s\S]{0,8192}?-----END[ ][A-Z ]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?----- | [A-Za-z0-9+/=\s\\]{0,8192} )""",
    re.VERBOSE,
)


def words(name: str) -> tuple[str, ...]:
    """The words of a name, in capitals: ``npmAuthToken_2`` is ``("NPM", "AUTH", "TOKEN")``."""
    return tuple(word.upper() for word in _WORD.findall(name))


def _is_git(name: str, _value: str) -> bool:
    return name in _GIT or name.startswith(_GIT_PREFIXES)


def _is_credential(name: str, value: str) -> bool:
    if name in _CREDENTIALS or name.startswith(_CREDENTIAL_PREFIXES) or _BUNDLER.match(name):
        return True
    parts = words(name)
    if name not in _HARMLESS and _names_credential(parts, value):
        return True
    if "PROXY" in parts and _PROXY_LOGIN.search(value):
        return True
    return _holds_credential(value) or ("SENTRY" not in parts and URL_TOKEN.search(value) is not None)


def _names_credential(parts: tuple[str, ...], value: str) -> bool:
    if not parts or parts[-1] in _ATTRIBUTES:
        return False
    pairs = set(pairwise(parts))
    found = {part for part in parts if part in _SECRET_WORDS or part.endswith(_ENDINGS)}
    for word, exempt in _NO_SECRET.items():
        if pairs & exempt:
            found.discard(word)
    if _COUNTING.intersection(parts):
        found -= {"KEYS", "TOKENS"}
    if _COUNTED.intersection(parts) or parts == ("TOKENS",):
        found -= {"TOKENS"}
    if found or pairs & _PAIRS:
        return True
    if any(part.endswith("PWD") for part in parts) and parts != ("PWD",) and not value.startswith("/"):
        return True  # else it is a directory
    last = parts[-1]
    names = last in _LAST_WORDS or (last.endswith("PASS") and last not in _NO_PASS)
    return names and value.lower() not in _YES_OR_NO


def _holds_credential(value: str) -> bool:
    return any(pattern.search(value) for pattern in (URL_PASSWORD, _SETTING, _GO_DSN, KEY_SHAPES))


def _is_marker(name: str, _value: str) -> bool:
    return name in _MARKERS or (name.startswith(_MARKER_PREFIXES) and name not in _NO_MARKERS)


def _is_loader(name: str, value: str) -> bool:
    if name == "ENV":
        return "/" in value or "$" in value
    return name in _LOADER or (name.startswith(_LOADER_PREFIXES) and name not in _NO_LOADER)


def _is_own(name: str, _value: str) -> bool:
    return name in _OWN or name.startswith(_OWN_PREFIXES)


_RULES: tuple[tuple[Reason, Callable[[str, str], bool]], ...] = (
    ("git-location", _is_git),  # before the words: GIT_CONFIG_KEY_0 is no key
    ("credential", _is_credential),
    ("session-marker", _is_marker),
    ("loader", _is_loader),
    ("own-environment", _is_own),
)


def removal_reason(name: str, value: str) -> Reason | None:
    """Why a child does not get this ambient variable; None if it does.

    Pure: it looks at nothing but its arguments.  The value decides only where it carries a password or has the shape
    of a key.
    """
    return next((reason for reason, applies in _RULES if applies(name, value)), None)
