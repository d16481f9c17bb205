"""What `:erlang.term_to_binary/1` does, written from the format's description: for messages in a file of Alarm's."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from wakeful.seeds.erlang_terms import Atom, Map


def term_to_binary(term: Any, *, compressed: bool = False) -> bytes:
    body = encoded(term)
    if compressed:
        return bytes([131, 80]) + struct.pack(">I", len(body)) + zlib.compress(body)
    return bytes([131]) + body


def encoded(term: Any) -> bytes:
    match term:
        case Atom(name):
            text = name.encode()
            return (bytes([119, len(text)]) if len(text) < 256 else b"\x76" + struct.pack(">H", len(text))) + text
        case int():
            return _integer(term)
        case float():
            return b"\x46" + struct.pack(">d", term)
        case bytes():
            return b"\x6d" + struct.pack(">I", len(term)) + term
        case tuple():
            head = bytes([104, len(term)]) if len(term) < 256 else b"\x69" + struct.pack(">I", len(term))
            return head + b"".join(map(encoded, term))
        case Map(pairs):
            return b"\x74" + struct.pack(">I", len(pairs)) + b"".join(encoded(one) for pair in pairs for one in pair)
        case list():
            return _list(term)
    raise TypeError(term)


def _integer(number: int) -> bytes:
    if 0 <= number < 256:
        return bytes([97, number])
    if -(2**31) <= number < 2**31:
        return b"\x62" + struct.pack(">i", number)
    size = (abs(number).bit_length() + 7) // 8
    head = bytes([110, size]) if size < 256 else b"\x6f" + struct.pack(">I", size)
    return head + bytes([number < 0]) + abs(number).to_bytes(size, "little")


def _list(terms: list[Any]) -> bytes:
    if not terms:
        return b"\x6a"
    if len(terms) < 65536 and all(isinstance(one, int) and 0 <= one < 256 for one in terms):
        return b"\x6b" + struct.pack(">H", len(terms)) + bytes(terms)
    return b"\x6c" + struct.pack(">I", len(terms)) + b"".join(map(encoded, terms)) + b"\x6a"


def keywords(**given: Any) -> list[Any]:
    return [(Atom(name), value) for name, value in given.items()]


def a_map(**given: Any) -> Map:
    return Map(tuple((Atom(name), value) for name, value in given.items()))
