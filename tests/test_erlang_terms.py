"""Erlang's terms: each tag from bytes written by hand, any term there and back, and no bytes that do harm."""

from __future__ import annotations

import json
import struct
import tracemalloc
import zlib
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.seeds.erlang import a_map, encoded, keywords, term_to_binary
from wakeful.errors import InvalidRequest
from wakeful.seeds.erlang_terms import BIG_LIMIT, DEPTH_LIMIT, SIZE_LIMIT, Atom, Map, as_json, inspect, read

OK = Atom("ok")
# Each line by hand from the description of the External Term Format: a tag, its lengths, its bytes.
GOLDEN = {
    "SMALL_INTEGER_EXT": (bytes([131, 97, 255]), 255),
    "INTEGER_EXT": (bytes([131, 98, 0, 0, 1, 0]), 256),
    "INTEGER_EXT below zero": (bytes([131, 98, 255, 255, 255, 255]), -1),
    "SMALL_BIG_EXT": (bytes([131, 110, 4, 0, 0, 0, 0, 128]), 2**31),
    "SMALL_BIG_EXT below zero": (bytes([131, 110, 8, 1, 1, 0, 0, 0, 0, 0, 0, 128]), -(2**63) - 1),
    "LARGE_BIG_EXT": (bytes([131, 111, 0, 0, 1, 0, 0]) + bytes(255) + b"\x01", 2**2040),
    "NEW_FLOAT_EXT": (bytes([131, 70, 63, 248, 0, 0, 0, 0, 0, 0]), 1.5),
    "FLOAT_EXT": (bytes([131, 99]) + b"1.50000000000000000000e+00".ljust(31, b"\x00"), 1.5),
    "FLOAT_EXT below zero": (bytes([131, 99]) + b"-2.50000000000000000000e-01".ljust(31, b"\x00"), -0.25),
    "SMALL_ATOM_UTF8_EXT": (bytes([131, 119, 2]) + b"ok", OK),
    "SMALL_ATOM_UTF8_EXT beyond ASCII": (bytes([131, 119, 2, 195, 188]), Atom("ü")),
    "ATOM_UTF8_EXT": (bytes([131, 118, 0, 2]) + b"ok", OK),
    "ATOM_EXT": (bytes([131, 100, 0, 1, 252]), Atom("ü")),
    "SMALL_ATOM_EXT": (bytes([131, 115, 2]) + b"ok", OK),
    "NIL_EXT": (bytes([131, 106]), []),
    "STRING_EXT": (bytes([131, 107, 0, 3, 1, 2, 3]), [1, 2, 3]),
    "LIST_EXT": (bytes([131, 108, 0, 0, 0, 2, 119, 2]) + b"ok" + bytes([97, 1, 106]), [OK, 1]),
    "BINARY_EXT": (bytes([131, 109, 0, 0, 0, 2]) + b"hi", b"hi"),
    "SMALL_TUPLE_EXT": (bytes([131, 104, 2, 119, 2]) + b"ok" + bytes([97, 7]), (OK, 7)),
    "LARGE_TUPLE_EXT": (bytes([131, 105, 0, 0, 0, 1, 106]), ([],)),
    "MAP_EXT": (bytes([131, 116, 0, 0, 0, 1, 119, 2]) + b"ok" + bytes([97, 7]), Map(((OK, 7),))),
    "compressed": (bytes([131, 80, 0, 0, 0, 7]) + zlib.compress(b"\x6d\x00\x00\x00\x02hi"), b"hi"),
}
# {:send, %{message: "Call client"}} byte for byte.
SEND = (
    bytes([131, 104, 2, 119, 4]) + b"send" + bytes([116, 0, 0, 0, 1, 119, 7]) + b"message"
    + bytes([109, 0, 0, 0, 11]) + b"Call client"
)  # fmt: skip


@pytest.mark.parametrize("tag", GOLDEN)
def test_each_tag_is_read(tag: str) -> None:
    data, term = GOLDEN[tag]
    assert read(data) == term
    assert type(read(data)) is type(term)


def test_a_message_of_alarm_is_read() -> None:
    assert read(SEND) == (Atom("send"), a_map(message=b"Call client"))
    assert term_to_binary(read(SEND)) == SEND
    assert inspect(read(SEND)) == '{:send, %{message: "Call client"}}'
    assert as_json(read(SEND)) == ["send", {"message": "Call client"}]


ALWAYS_REFUSED = {
    "nothing": (b"", "not a term in the format of term_to_binary"),
    "another version": (bytes([130, 106]), "not a term in the format of term_to_binary"),
    "only the version": (bytes([131]), "cut off"),
    "a cut binary": (bytes([131, 109, 0, 0, 0, 3]) + b"hi", "cut off"),
    "a cut list": (bytes([131, 108, 0, 0, 0, 1, 106]), "cut off"),
    "more items than bytes": (bytes([131, 108, 255, 255, 255, 255, 106, 106]), "cut off"),
    "more fields than bytes": (bytes([131, 105, 255, 255, 255, 255, 106]), "cut off"),
    "more pairs than bytes": (bytes([131, 116, 255, 255, 255, 255, 106, 106]), "cut off"),
    "an improper list": (bytes([131, 108, 0, 0, 0, 1, 97, 1, 97, 2]), "an improper list"),
    "a huge integer": (bytes([131, 111, 255, 255, 255, 255, 0]), f"an integer of more than {BIG_LIMIT} bytes"),
    "infinity": (bytes([131, 70, 127, 240, 0, 0, 0, 0, 0, 0]), "a float that is not a number"),
    "infinity as text": (bytes([131, 99]) + b"inf".ljust(31, b"\x00"), "a float that is not a number"),
    "a float beyond all floats": (bytes([131, 99]) + b"1.0e+999".ljust(31, b"\x00"), "a float that is not a number"),
    "words in place of a float": (bytes([131, 99]) + b"1_0.0".ljust(31, b"\x00"), "a float that is not a number"),
    "a cut float": (bytes([131, 99]) + b"1.5", "cut off"),
    "an atom that is not UTF-8": (bytes([131, 119, 1, 255]), "an atom that is not UTF-8"),
    "a long atom": (bytes([131, 118, 1, 0]) + b"a" * 256, "an atom of more than 255 characters"),
    "something after it": (bytes([131, 106, 106]), "1 bytes follow the term"),
    "a bitstring": (bytes([131, 77, 0, 0, 0, 1, 4, 240]), "a bitstring"),
    "a pid": (bytes([131, 88, 119, 1]) + b"n" + bytes(12), "a pid, which means nothing outside the system"),
    "an old pid": (bytes([131, 103, 119, 1]) + b"n" + bytes(9), "a pid"),
    "a reference": (bytes([131, 90, 0, 1, 119, 1]) + b"n" + bytes(8), "a reference"),
    "an old reference": (bytes([131, 114, 0, 1, 119, 1]) + b"n" + bytes(5), "a reference"),
    "a port": (bytes([131, 89, 119, 1]) + b"n" + bytes(8), "a port"),
    "a new port": (bytes([131, 120, 119, 1]) + b"n" + bytes(12), "a port"),
    "a fun": (bytes([131, 112, 0, 0, 0, 4]), "a function"),
    "fun M.F/A": (bytes([131, 113, 119, 1]) + b"m" + bytes([119, 1]) + b"f" + bytes([97, 1]), "a function"),
    "a pid inside": (bytes([131, 104, 1, 88]), "a pid"),
    "a tag of tomorrow": (bytes([131, 250]), "a term of an unknown kind (250)"),
    "compressed twice": (bytes([131, 80, 0, 0, 0, 1]) + zlib.compress(bytes([80])), "an unknown kind (80)"),
    "compressed garbage": (bytes([131, 80, 0, 0, 0, 1]) + b"garbage", "it cannot be unpacked"),
    "compressed and cut": (term_to_binary(b"x" * 100, compressed=True)[:-4], "not the size it declares"),
    "more than it says": (bytes([131, 80, 0, 0, 0, 1]) + zlib.compress(bytes([106, 106])), "not the size it declares"),
    "compressed and huge": (bytes([131, 80, 255, 255, 255, 255]) + zlib.compress(b"j"), "bytes when unpacked"),
    "too large": (bytes([131, 109]) + struct.pack(">I", SIZE_LIMIT) + bytes(SIZE_LIMIT), "it is larger than"),
}


@pytest.mark.parametrize("what", ALWAYS_REFUSED)
def test_what_is_no_data_is_refused_in_words(what: str) -> None:
    data, words = ALWAYS_REFUSED[what]
    with pytest.raises(InvalidRequest) as refused:
        read(data)
    assert words in str(refused.value)
    assert str(refused.value).startswith("message: ")


def test_depth_has_a_limit() -> None:
    def nested(levels: int) -> bytes:
        return bytes([131]) + bytes([104, 1]) * levels + bytes([106])

    read(nested(DEPTH_LIMIT - 1))
    for levels in (DEPTH_LIMIT, 500_000):
        with pytest.raises(InvalidRequest, match=f"nested deeper than {DEPTH_LIMIT}"):
            read(nested(levels))


def test_what_unpacks_to_a_gigabyte_is_not_unpacked() -> None:
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(bytes(1024 * 1024)) for _ in range(200)) + packer.flush()
    bomb = bytes([131, 80]) + struct.pack(">I", SIZE_LIMIT) + packed
    assert len(bomb) < SIZE_LIMIT
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match="not the size it declares"):
            read(bomb)
        assert tracemalloc.get_traced_memory()[1] < 8 * SIZE_LIMIT
    finally:
        tracemalloc.stop()


atoms = st.builds(Atom, st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
plain = (
    atoms
    | st.integers(-(2**2100), 2**2100)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.binary(max_size=300)
    | st.text(max_size=40).map(str.encode)
)
terms = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.lists(inner, max_size=6).map(tuple)
        | st.lists(st.tuples(inner, inner), max_size=4).map(lambda pairs: Map(tuple(pairs)))
        | st.lists(st.tuples(atoms, inner), min_size=1, max_size=4)
    ),
    max_leaves=25,
)


@settings(deadline=None)
@given(terms, st.booleans())
@example([0] * 70_000, False)
@example((0,) * 300, True)
def test_every_term_comes_back_as_it_was_and_can_be_shown(term: Any, compressed: bool) -> None:
    again = read(term_to_binary(term, compressed=compressed))
    assert encoded(again) == encoded(term)  # bytes tell 1 from 1.0 and -0.0 from 0.0
    inspect(again)
    assert msgspec.json.decode(msgspec.json.encode(as_json(again))) == as_json(again)


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from([*range(70, 121)]), st.booleans())
def test_no_bytes_do_anything_but_read_or_be_refused(data: bytes, tag: int, is_term: bool) -> None:
    try:
        term = read((bytes([131, tag]) if is_term else b"") + data)
    except InvalidRequest:
        return
    json.dumps(as_json(term))
    inspect(term)


@settings(deadline=None)
@given(terms, st.data())
def test_a_term_with_a_wrong_byte_is_another_term_or_refused(term: Any, data: st.DataObject) -> None:
    whole = bytearray(term_to_binary(term))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    with suppress(InvalidRequest):
        inspect(read(bytes(whole)))


@pytest.mark.parametrize(
    ("term", "shown", "as_value"),
    [
        (Atom("nil"), "nil", None),
        (Atom("true"), "true", True),
        (Atom("false"), "false", False),
        (Atom("send"), ":send", "send"),
        (Atom("is it?"), ':"is it?"', "is it?"),
        (Atom("Elixir.My.Pushover"), "My.Pushover", "My.Pushover"),
        (Atom("Elixir."), ':"Elixir."', "Elixir."),
        (b"say \"hi\"\n#{x}", '"say \\"hi\\"\\n\\#{x}"', 'say "hi"\n#{x}'),
        ("ß ☃".encode(), '"ß ☃"', "ß ☃"),
        (b"\xff\x00", "<<255, 0>>", {"base64": "/wA="}),
        (b"a\x00b", "<<97, 0, 98>>", {"base64": "YQBi"}),
        (1.0e22, "1.0e22", 1.0e22),
        (2**64, "18446744073709551616", "18446744073709551616"),
        (-(2**63), "-9223372036854775808", -(2**63)),
        ([], "[]", []),
        ([1, 2], "[1, 2]", [1, 2]),
        ([104, 105], '~c"hi"', [104, 105]),
        ((), "{}", []),
        (keywords(to=b"1", n=2), '[to: "1", n: 2]', {"to": "1", "n": 2}),
        ([(Atom("a"), 1), (Atom("a"), 2)], "[a: 1, a: 2]", [["a", 1], ["a", 2]]),
        (Map(((b"k", 1), (Atom("a"), OK))), '%{"k" => 1, :a => :ok}', {"k": 1, "a": "ok"}),
        (Map(((b"a", 1), (Atom("a"), 2))), '%{"a" => 1, :a => 2}', [["a", 1], ["a", 2]]),
        (Map(((1, b"one"),)), '%{1 => "one"}', [[1, "one"]]),
        (Map(((Atom("nil"), 1),)), "%{nil: 1}", {"nil": 1}),
        (Map(((Atom("Elixir.Foo"), 1),)), "%{Foo => 1}", {"Foo": 1}),
        (Map(()), "%{}", {}),
        ((Atom("at"), [b"x", (1, 2.5)]), '{:at, ["x", {1, 2.5}]}', ["at", ["x", [1, 2.5]]]),
    ],
)  # fmt: skip
def test_it_is_shown_as_elixir_does_and_told_as_json(term: Any, shown: str, as_value: Any) -> None:
    assert inspect(term) == shown
    assert as_json(term) == as_value
