"""Signed responses: bound to one invocation, one place in its sequence, one body."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.identity import BadSignature, PublicKey, PublicKeys, sign_body, verify_body
from modelpact.identity.keys import SigningKey
from modelpact.vocabulary.errors import InputError

KEY = SigningKey.generate()
KEYS = PublicKeys((PublicKey(KEY.raw_public, "2026-01-01T00:00:00Z"),))
NOW = 1_790_000_000.5
INVOCATIONS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60)


def reason(*args: Any, **options: Any) -> str:
    with pytest.raises(BadSignature) as caught:
        verify_body(*args, **{"now": NOW, **options})
    return caught.value.reason


@given(INVOCATIONS, st.binary(max_size=200), st.integers(0, 10**9))
def test_what_was_signed_verifies(invocation: str, body: bytes, sequence: int) -> None:
    header = sign_body(KEY, invocation, body, sequence=sequence, time=NOW)
    text = verify_body(KEYS, invocation, body, header, sequence=sequence, now=NOW)
    assert (text.key_id, text.sequence, text.time) == (KEY.key_id, sequence, int(NOW))
    assert header.isascii()
    assert "\n" not in header


@given(st.binary(min_size=1, max_size=100), st.integers(0, 799))
def test_any_flipped_bit_of_the_body_fails(body: bytes, bit: int) -> None:
    header = sign_body(KEY, "i-1", body, time=NOW)
    changed = bytearray(body)
    changed[bit // 8 % len(changed)] ^= 1 << bit % 8
    assert reason(KEYS, "i-1", bytes(changed), header) == "mismatch"


def test_any_flipped_bit_of_the_header_fails() -> None:
    header = sign_body(KEY, "i-1", b"body", time=NOW).encode()
    for bit in range(len(header) * 8):
        changed = bytearray(header)
        changed[bit // 8] ^= 1 << bit % 8
        assert reason(KEYS, "i-1", b"body", changed.decode("latin-1"))


@given(INVOCATIONS, INVOCATIONS)
def test_a_response_does_not_serve_another_invocation(one: str, other: str) -> None:
    header = sign_body(KEY, one, b"body", time=NOW)
    if one != other:
        assert reason(KEYS, other, b"body", header) == "mismatch"


def test_a_replay_within_an_invocation_is_out_of_order() -> None:
    first = sign_body(KEY, "i-1", b"body", sequence=0, time=NOW)
    verify_body(KEYS, "i-1", b"body", first, sequence=0, now=NOW)
    assert reason(KEYS, "i-1", b"body", first, sequence=1) == "out-of-order"
    renumbered = first.replace("seq=0", "seq=1")
    assert reason(KEYS, "i-1", b"body", renumbered, sequence=1) == "mismatch"


def test_time_is_signed_and_bounded() -> None:
    header = sign_body(KEY, "i-1", b"body", time=NOW)
    assert reason(KEYS, "i-1", b"body", header, now=NOW + 302) == "stale"
    assert reason(KEYS, "i-1", b"body", header, now=NOW - 302) == "stale"
    later = header.replace(str(int(NOW)), str(int(NOW) + 300))
    assert reason(KEYS, "i-1", b"body", later, now=NOW + 300) == "mismatch"
    verify_body(KEYS, "i-1", b"body", header, now=NOW + 10**8, max_age=None)


def test_an_unknown_key_is_named() -> None:
    other = SigningKey.generate()
    assert reason(KEYS, "i-1", b"", sign_body(other, "i-1", b"", time=NOW)) == "unknown-key"
    forged = sign_body(other, "i-1", b"", time=NOW).replace(other.key_id, KEY.key_id)
    assert reason(KEYS, "i-1", b"", forged) == "mismatch"


@given(st.one_of(st.none(), st.text(), st.integers()))
def test_rubbish_is_malformed(header: Any) -> None:
    assert reason(KEYS, "i-1", b"", header) == "malformed"


@pytest.mark.parametrize("tail", [" ", "\n", ";x=1", "\x00"])
def test_nothing_may_follow(tail: str) -> None:
    assert reason(KEYS, "i-1", b"", sign_body(KEY, "i-1", b"", time=NOW) + tail) == "malformed"


@pytest.mark.parametrize("invocation", ["", "a b", "a\nb", "ü", "x" * 257])
def test_ids_that_could_blur_the_lines_are_refused(invocation: str) -> None:
    with pytest.raises(InputError, match="cannot be signed"):
        sign_body(KEY, invocation, b"")
    assert reason(KEYS, invocation, b"", sign_body(KEY, "i", b"", time=NOW)) == "malformed"


@pytest.mark.parametrize("sequence", [-1, 10**15])
def test_a_sequence_out_of_range_is_refused(sequence: int) -> None:
    with pytest.raises(InputError, match="out of range"):
        sign_body(KEY, "i", b"", sequence=sequence)


def test_without_a_time_it_is_now() -> None:
    verify_body(KEYS, "i", b"", sign_body(KEY, "i", b""))
