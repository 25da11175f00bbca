"""Redaction: replace values that look like secrets in diagnostics, reports and records.

A value is redacted for its shape (keys and tokens have telling prefixes) or for its name. Ordinary
words stay: `sk-learn`, `max_tokens`, `stop_token`.
"""

import re
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any, Final

import msgspec

REDACTED: Final = "[REDACTED]"

_SHAPES: Final = r"""
    -----BEGIN\ (?:[A-Z0-9]+\ )*PRIVATE\ KEY-----            # PEM, whole or cut off
        (?:.*?-----END\ (?:[A-Z0-9]+\ )*PRIVATE\ KEY-----|.*)
    | \b(?i:bearer)\s+(?:(?=[^\s"',;]{0,64}[0-9])[A-Za-z0-9._~+/=-]{12,}|[A-Za-z_~+/=]{24,}(?![-.]))
    | \b(?i:basic)\s+(?=[A-Za-z+/]{0,64}[0-9])[A-Za-z0-9+/]{12,}={0,2}(?![A-Za-z0-9-])
    | \beyJ[A-Za-z0-9_-]{6,2000}\.[A-Za-z0-9_-]{6,4000}(?:\.[A-Za-z0-9_-]*)?   # JWT
    | (?<=://)[^\s/@]{0,256}:[^\s@]{1,256}(?=@)              # user:password@ in a URL
    | (?<=://)[^\s/:@]{16,256}(?=@)                          # token@ in a URL
    | (?i:(?<=api_key=)|(?<=api-key=)|(?<=apikey=)|(?<=password=)|(?<=passwd=)|(?<=access_token=)
        |(?<=client_secret=))[^\s&;,"']{4,}                  # in a query or a command
    | (?<![a-z])sk-(?:[A-Za-z0-9]{20,}                       # OpenAI and those who follow it
        |(?:proj|svcacct|admin|ant|or|lf|None)-[A-Za-z0-9_-]{16,}
        |(?=[a-z_-]{0,64}[A-Z0-9])[A-Za-z0-9_-]{16,})        # and proxies, in base64
    | \b[rsp]k_(?:live|test)_[A-Za-z0-9]{16,}                # Stripe
    | gh[opusr]_[A-Za-z0-9]{20,} | github_pat_[A-Za-z0-9_]{20,}
    | glpat-[A-Za-z0-9_-]{18,}
    | AIza[A-Za-z0-9_-]{30,} | ya29\.[A-Za-z0-9_-]{20,} | GOCSPX-[A-Za-z0-9_-]{20,}
    | (?:AKIA|ASIA|ABIA|ACCA)(?=[A-Z]{0,15}[0-9])[A-Z0-9]{16}
    | xox[abceoprs]-[A-Za-z0-9-]{10,} | xapp-[A-Za-z0-9-]{10,}
    | (?<![A-Za-z0-9])(?:hf|gsk|r8|npm|pplx|nvapi|fw|csk|tgp_v1)_[A-Za-z0-9]{24,}
    | (?<![A-Za-z0-9])(?:pplx|nvapi|csk|xai)-(?=[A-Za-z_-]{0,64}[0-9])[A-Za-z0-9_-]{24,}
    | pypi-[A-Za-z0-9_-]{50,}
    """


@cache
def _shapes() -> re.Pattern[str]:
    """Compile the shapes when they are first needed: compiling takes longer than all imports."""
    return re.compile(_SHAPES, re.VERBOSE | re.DOTALL)


_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_ENDINGS: Final = (
    *("secret", "password", "passwd", "pwd", "passphrase", "credential", "authorization", "cookie"),
    *("apikey", "accesskey", "authkey", "privatekey", "secretkey", "bearer", "authtoken"),
    *("accesstoken", "refreshtoken", "sessiontoken"),
)
_ORDINARY_KEYS: Final = frozenset(
    {"cache", "dedup", "foreign", "group", "idempotency", "index", "partition", "primary"}
    | {"public", "routing", "row", "sort", "unique"}
)
_KEY_OWNERS: Final = frozenset(
    {"api", "access", "account", "auth", "encryption", "private", "secret", "shared", "signing"}
    | {"ssh", "service", "subscription"}
)
_TOKEN_OWNERS: Final = frozenset({"access", "api", "auth", "bearer", "csrf", "id", "refresh", "secret", "session"})
_ORDINARY_TOKENS: Final = frozenset(
    {"bos", "cls", "end", "eos", "first", "last", "mask", "next", "pad", "per", "sep"}
    | {"special", "start", "stop", "unk"}
)
_MAX_DEPTH: Final = 64


def redact_text(text: str) -> str:
    """Return the text with everything that looks like a secret replaced."""
    for _ in range(3):  # replacing a secret may reveal another one right after it
        text, count = _shapes().subn(REDACTED, text)
        if not count:
            break
    return text


def is_secret_name(name: str) -> bool:
    """Whether a value with this name is a secret, whatever its shape."""
    words = [word.lower() for word in _WORDS.findall(name[-256:])]
    if not words:
        return False
    if words[-1] == "token":
        return len(words) == 1 or words[-2] not in _ORDINARY_TOKENS
    single = [word.removesuffix("s") for word in words]
    if any(word.endswith(_SECRET_ENDINGS) for word in single):
        return True
    if single[-1] == "key":
        return len(single) == 1 or single[-2] not in _ORDINARY_KEYS
    return single[-1] == "auth" or any(
        (second == "key" and first in _KEY_OWNERS) or (second == "token" and first in _TOKEN_OWNERS)
        for first, second in pairwise(single)
    )


def redact(value: Any, *, name: str = "") -> Any:
    """Return a copy of the value without secrets; `name` is the name of the value, if known."""
    return _redact(value, name, 0)


def _redact(value: Any, name: str, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if name and is_secret_name(name):
        return REDACTED
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, (int, float)):
        return value
    if depth >= _MAX_DEPTH:
        return REDACTED
    if isinstance(value, Mapping):
        return _redact_mapping(value, depth)
    if isinstance(value, (list, tuple, set, frozenset)):
        items = list(value)
        if len(items) == 2 and isinstance(items[0], str) and is_secret_name(items[0]):
            return [items[0], REDACTED]
        return [_redact(item, "", depth + 1) for item in items]
    if isinstance(value, msgspec.Struct):
        return _redact_mapping(msgspec.structs.asdict(value), depth)
    if isinstance(value, (bytes, bytearray)):
        return REDACTED
    return redact_text(str(value))


def _redact_mapping(value: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
    name_field = value.get("name")
    redacted: dict[Any, Any] = {}
    for key, item in value.items():
        label = key if isinstance(key, str) else ""
        if key == "value" and isinstance(name_field, str):
            label = name_field
        safe_key = redact_text(label) if label and isinstance(key, str) and key == label else key
        while safe_key in redacted:
            safe_key = f"{safe_key}'"
        redacted[safe_key] = _redact(item, label, depth + 1)
    return redacted
