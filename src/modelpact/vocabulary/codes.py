"""Error codes: one table across the dialects. `docs/errors.md` is written from it."""

from typing import Final

import msgspec


class Code(msgspec.Struct, frozen=True):
    """A code that a program may see, what causes it, and what to do about it."""

    code: str
    where: str
    cause: str
    remedy: str


CODES: Final[tuple[Code, ...]] = (
    Code(
        "ProviderCapability/MissingCapability",
        "`stud`: `negotiate --dialect stud`, a rejected switch",
        "A hard need is not met: unsupported, below its minimum, in conflict, or not known while "
        "policy `unknown` is `refuse`.",
        "Take the suggestion, choose another model, lower the need's level, or state what you know "
        "of the model in `modelpact.toml`.",
    ),
    Code(
        "preferred-unmet",
        "`stud`: a warning",
        "A preferred need is not met; the work runs without it.",
        "Nothing, or choose a model that has it.",
    ),
    Code(
        "probe-pending",
        "`stud`: a warning",
        "Only use will show whether the model can do it.",
        "Probe the model, or state in `modelpact.toml` what you know.",
    ),
    Code(
        "CAPABILITY_UNSUPPORTED",
        "`abp`: `negotiate --dialect abp`, on standard error",
        "At least one required capability is not in the manifest, is unsupported there, or is "
        "below its `min_support`.",
        "Choose a backend whose manifest has it, or accept `emulated`.",
    ),
    Code(
        "capability_not_provided",
        "`openwop`: a refused dispatch",
        "The active model lacks a required capability and no declared fallback could stand in.",
        "Declare a `fallbackModel` that has every required capability, or run on another model.",
    ),
    Code(
        "exit 1",
        "command line",
        "The answer is no: it does not fit, was refused, or there are findings.",
        "Read the diagnosis on standard output.",
    ),
    Code(
        "exit 2",
        "command line",
        "The command or its input is wrong; standard error says what, where and what to do.",
        "Correct the call or the file.",
    ),
)


def codes_markdown() -> str:
    """Return the table of `docs/errors.md`."""
    lines = ["| code | where | cause | remedy |", "|---|---|---|---|"]
    lines += [f"| `{one.code}` | {one.where} | {one.cause} | {one.remedy} |" for one in CODES]
    return "\n".join(lines) + "\n"
