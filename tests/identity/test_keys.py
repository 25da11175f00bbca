"""Signatures hold for exactly what was signed; lists of keys carry trust over."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from modelpact.identity import PublicKey, PublicKeys, Signature, UntrustedKeys, verify
from modelpact.identity.keys import SigningKey, is_weak_key
from modelpact.vocabulary.errors import InputError

KEY = SigningKey.generate()
KEYS = PublicKeys((PublicKey(KEY.raw_public, "2026-01-01T00:00:00Z"),))


def flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8 % len(changed)] ^= 1 << bit % 8
    return bytes(changed)


def chain(*keys: SigningKey) -> PublicKeys:
    made: list[PublicKey] = []
    for at, key in enumerate(keys):
        entry = PublicKey(key.raw_public, f"2026-01-01T00:00:{at:02d}Z")
        if at:
            older = keys[at - 1]
            signed = older.sign(entry.handover_statement(older.key_id), purpose="handover")
            entry = PublicKey(entry.raw, entry.created, signed.value)
        made.append(entry)
    return PublicKeys(tuple(made))


@given(st.binary(max_size=300))
def test_what_was_signed_verifies(data: bytes) -> None:
    assert verify(KEYS, data, KEY.sign(data))


@given(st.binary(min_size=1, max_size=100), st.integers(0, 799))
def test_any_flipped_bit_of_the_data_fails(data: bytes, bit: int) -> None:
    assert not verify(KEYS, flip(data, bit), KEY.sign(data))


def test_any_flipped_bit_of_the_signature_fails() -> None:
    value = KEY.sign(b"data").value
    for bit in range(512):
        assert not verify(KEYS, b"data", Signature(KEY.key_id, flip(value, bit)))


def test_any_flipped_bit_of_the_key_fails() -> None:
    signature = KEY.sign(b"data")
    for bit in range(256):
        raw = flip(KEY.raw_public, bit)
        other = PublicKeys((PublicKey(raw, "2026-01-01T00:00:00Z"),))
        assert not verify(other, b"data", signature)
        assert not verify(other, b"data", Signature(other.current.key_id, signature.value))


def test_a_signature_serves_one_purpose() -> None:
    entry = PublicKey(SigningKey.generate().raw_public, "2026-01-01T00:00:00Z")
    statement = entry.handover_statement(KEY.key_id)
    assert not verify(KEYS, statement, KEY.sign(statement), purpose="handover")
    assert not verify(KEYS, statement, KEY.sign(statement, purpose="handover"))


RUBBISH = st.one_of(
    st.none(),
    st.integers(),
    st.text(),
    st.binary(max_size=80),
    st.builds(Signature, st.text(), st.binary(max_size=80)),
    st.builds(Signature, st.just(KEY.key_id), st.one_of(st.none(), st.text(), st.binary())),
    st.builds(Signature, st.lists(st.integers()), st.binary()),
)


@given(st.one_of(st.none(), st.text(), st.binary()), RUBBISH)
def test_garbage_does_not_verify_and_does_not_raise(data: Any, signature: Any) -> None:
    assert verify(KEYS, data, signature) is False


@given(st.binary(max_size=40))
def test_a_signature_reads_back_from_its_text(data: bytes) -> None:
    signature = KEY.sign(data)
    assert Signature.parse(str(signature)) == signature


@pytest.mark.parametrize("text", ["", "x", "0" * 16 + ":" + "A" * 128, "0" * 16 + ":" + "a" * 127])
def test_other_texts_are_not_signatures(text: str) -> None:
    with pytest.raises(InputError, match="is not a signature"):
        Signature.parse(text)


def test_an_export_reads_back_and_verifies() -> None:
    first, second, third = (SigningKey.generate() for _ in range(3))
    keys = PublicKeys.parse(chain(first, second, third).to_json())
    assert [key.key_id for key in keys.keys] == [first.key_id, second.key_id, third.key_id]
    for key in (first, second, third):
        assert verify(keys, b"x", key.sign(b"x"))


@given(st.data())
def test_a_changed_export_is_refused(data: st.DataObject) -> None:
    export = json.loads(chain(KEY, SigningKey.generate()).to_json())
    at = data.draw(st.sampled_from([0, 1]))
    field = data.draw(st.sampled_from(["key_id", "public_key", "created", "handover"]))
    text = export["keys"][at][field]
    assume(text is not None)
    assume((at, field) != (0, "created"))  # nobody signs when the first key was made
    place = data.draw(st.integers(0, len(text) - 1))
    new = data.draw(st.sampled_from("0123456789abcdef").filter(lambda one: one != text[place]))
    export["keys"][at][field] = text[:place] + new + text[place + 1 :]
    with pytest.raises(InputError, match="cannot be used"):
        PublicKeys.parse(json.dumps(export))


@given(st.one_of(st.binary(max_size=60), st.text(max_size=60)))
def test_garbage_is_not_an_export(data: bytes | str) -> None:
    with pytest.raises(InputError):
        PublicKeys.parse(data)


@pytest.mark.parametrize("change", [{"format": "modelpact-public-keys/2"}, {"keys": []}, {"more": 1}, {"keys": None}])
def test_other_forms_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        PublicKeys.parse(json.dumps(json.loads(KEYS.to_json()) | change))


def test_a_list_with_a_repeated_key_is_rejected() -> None:
    with pytest.raises(InputError, match="twice"):
        PublicKeys((KEYS.current, KEYS.current))


def test_trust_extends_along_the_chain() -> None:
    keys = [SigningKey.generate() for _ in range(4)]
    whole = chain(*keys)
    assert chain(keys[0]).extended_by(whole) == whole
    assert whole.extended_by(chain(*keys[:2])) == whole  # an older export takes nothing away
    middle = PublicKeys(whole.keys[1:3])
    assert middle.extended_by(whole).keys == whole.keys[1:]


def test_a_strangers_keys_are_not_trusted() -> None:
    with pytest.raises(UntrustedKeys, match="none of the offered keys is trusted"):
        KEYS.extended_by(chain(SigningKey.generate(), SigningKey.generate()))


def test_a_retired_key_cannot_name_a_second_successor() -> None:
    first, second, thief = (SigningKey.generate() for _ in range(3))
    with pytest.raises(UntrustedKeys, match="a retired key was used again"):
        chain(first, second).extended_by(chain(first, thief))


def test_a_private_key_does_not_show() -> None:
    assert repr(KEY) == f"<SigningKey {KEY.key_id}>"


def test_importing_does_not_load_cryptography() -> None:
    code = "import sys, modelpact, modelpact.identity;sys.exit(any(m in sys.modules for m in ('cryptography', 'ssl')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _torsion() -> list[bytes]:
    """Return every encoding of the points of small order, computed from the curve."""
    prime = 2**255 - 19
    d = -121665 * pow(121666, -1, prime) % prime
    root_of_minus_1 = pow(2, (prime - 1) // 4, prime)

    def add(one: tuple[int, int], two: tuple[int, int]) -> tuple[int, int]:
        (x1, y1), (x2, y2) = one, two
        product = d * x1 * x2 * y1 * y2
        x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, prime)
        y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, prime)
        return x % prime, y % prime

    def recovered(y: int) -> tuple[int, int] | None:
        square = (y * y - 1) * pow(d * y * y + 1, -1, prime) % prime
        x = pow(square, (prime + 3) // 8, prime)
        if x * x % prime != square:
            x = x * root_of_minus_1 % prime
        return (x, y) if x * x % prime == square else None

    order = 2**252 + 27742317777372353535851937790883648493
    for y in range(2, 100):
        point = recovered(y)
        if point is None:
            continue
        small, base, times = (0, 1), point, order
        while times:
            if times & 1:
                small = add(small, base)
            base, times = add(base, base), times >> 1
        multiples = [(0, 1)]
        for _ in range(7):
            multiples.append(add(multiples[-1], small))
        if len(set(multiples)) == 8:
            break
    ys = {y for _, y in multiples}
    ys |= {y + prime for y in ys if y + prime < 2**255}
    return [(y | sign << 255).to_bytes(32, "little") for y in ys for sign in (0, 1)]


def test_keys_of_small_order_are_refused() -> None:
    """For a key of small order one signature is valid for all data, so that anybody could sign."""
    result = _torsion()
    assert len(result) == 14
    for raw in result:
        assert is_weak_key(raw)
        with pytest.raises(InputError, match="has small order"):
            PublicKeys((PublicKey(raw, "2026-01-01T00:00:00Z"),))
    for _ in range(20):
        assert not is_weak_key(SigningKey.generate().raw_public)
