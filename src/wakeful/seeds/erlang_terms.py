"""Erlang's External Term Format, as far as it is data: read, shown as Elixir shows it, and turned into JSON.

Reading makes values and nothing else. Every length is checked against the bytes that are there before anything is made
of it, so whatever the bytes say, reading ends soon, and with a term or an InvalidRequest.
"""

from __future__ import annotations

import math
import re
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct

from wakeful.errors import InvalidRequest

SIZE_LIMIT: Final = 1024 * 1024  # bytes of a term, also once it is unpacked
DEPTH_LIMIT: Final = 64
BIG_LIMIT: Final = 1024  # bytes of one integer
_VERSION: Final = 131
_COMPRESSED: Final = 80
_ATOM_LIMIT: Final = 255
_FLOAT_SIZE: Final = 31  # of a float as text, filled up with zero bytes
_FLOAT_TEXT: Final = re.compile(rb"[+-]?[0-9]{1,20}\.[0-9]{1,25}(?:e[+-][0-9]{1,3})?")
_JSON_INT: Final = 2**63
# What only means something inside the system that made it.
_NOT_DATA: Final = {
    88: "a pid",
    103: "a pid",
    89: "a port",
    102: "a port",
    120: "a port",
    90: "a reference",
    101: "a reference",
    114: "a reference",
    112: "a function",
    113: "a function",
    117: "a function",
    77: "a bitstring",
}
_PLAIN_ATOM: Final = re.compile(r"[a-z_][A-Za-z0-9_@]*[?!]?")
_MODULE: Final = re.compile(r"Elixir((\.[A-Z][A-Za-z0-9_]*)+)")
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\x1b": "\\e", "#{": "\\#{"}
_TO_ESCAPE: Final = re.compile(r'["\\\n\t\r\x1b]|#\{')


class Atom(Struct, frozen=True):
    name: str

    @property
    def shown(self) -> str:
        """Its name, as Elixir programs say it: without what marks a module."""
        return self.name.removeprefix("Elixir.") if _MODULE.fullmatch(self.name) else self.name


class Map(Struct, frozen=True):
    """In the order of the bytes; a key may be any term."""

    pairs: tuple[tuple[Term, Term], ...]


# Atoms, numbers, binaries, lists, tuples and maps.
Term = Any

NIL: Final = Atom("nil")
_CONSTANTS: Final[dict[str, bool | None]] = {"nil": None, "true": True, "false": False}


def read(data: bytes) -> Term:
    """The term that `term_to_binary` wrote; InvalidRequest where it is none, is too large, or is not data."""
    if len(data) > SIZE_LIMIT:
        raise _refusal(f"it is larger than {SIZE_LIMIT} bytes")
    if data[:1] != bytes([_VERSION]):
        raise _refusal("it is not a term in the format of term_to_binary")
    body = _Bytes(_unpacked(data[2:]) if data[1:2] == bytes([_COMPRESSED]) else data[1:])
    term = _term(body, DEPTH_LIMIT)
    if body.left:
        raise _refusal(f"{body.left} bytes follow the term")
    return term


def _refusal(what: str) -> InvalidRequest:
    return InvalidRequest(what, field="message")


def _unpacked(data: bytes) -> bytes:
    packed = _Bytes(data)
    size = packed.number(4)
    if size > SIZE_LIMIT:
        raise _refusal(f"it is larger than {SIZE_LIMIT} bytes when unpacked")
    unpacker = zlib.decompressobj()
    try:
        body = unpacker.decompress(packed.take(packed.left), size + 1)
    except zlib.error as error:
        raise _refusal(f"it cannot be unpacked ({error})") from None
    if len(body) != size or not unpacker.eof or unpacker.unused_data:
        raise _refusal("its unpacked size is not the size it declares")
    return body


class _Bytes:
    """What is left to read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise _refusal("it is cut off")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def count(self, size: int, *, each: int = 1) -> int:
        """How many terms follow: each is at least a byte, so there cannot be more of them than bytes."""
        count = self.number(size)
        if count * each > self.left:
            raise _refusal("it is cut off")
        return count


def _term(data: _Bytes, depth: int) -> Term:
    if depth == 0:
        raise _refusal(f"it is nested deeper than {DEPTH_LIMIT}")
    tag = data.number(1)
    if tag in _READERS:
        return _READERS[tag](data, depth - 1)
    if tag in _NOT_DATA:
        raise _refusal(f"it holds {_NOT_DATA[tag]}, which means nothing outside the system that made it")
    raise _refusal(f"it holds a term of an unknown kind ({tag})")


def _float(data: _Bytes, depth: int) -> float:
    (number,) = struct.unpack(">d", data.take(8))
    if not math.isfinite(number):
        raise _refusal("it holds a float that is not a number")
    return float(number)


def _float_in_text(data: _Bytes, depth: int) -> float:
    """A float as `term_to_binary(…, minor_version: 0)` writes it, and every Erlang before R11."""
    written = data.take(_FLOAT_SIZE).rstrip(b"\x00")
    number = float(written) if _FLOAT_TEXT.fullmatch(written) else math.nan
    if not math.isfinite(number):
        raise _refusal("it holds a float that is not a number")
    return number


def _big(data: _Bytes, size: int) -> int:
    if size > BIG_LIMIT:
        raise _refusal(f"it holds an integer of more than {BIG_LIMIT} bytes")
    sign = data.number(1)
    number = int.from_bytes(data.take(size), "little")
    return -number if sign else number


def _atom(data: _Bytes, size: int, encoding: str) -> Atom:
    try:
        name = data.take(size).decode(encoding)
    except UnicodeDecodeError:
        raise _refusal("it holds an atom that is not UTF-8") from None
    if len(name) > _ATOM_LIMIT:
        raise _refusal(f"it holds an atom of more than {_ATOM_LIMIT} characters")
    return Atom(name)


def _list(data: _Bytes, depth: int) -> list[Term]:
    found = [_term(data, depth) for _ in range(data.count(4))]
    if _term(data, depth) != []:
        raise _refusal("it holds an improper list")
    return found


def _tuple(data: _Bytes, depth: int, count: int) -> tuple[Term, ...]:
    return tuple(_term(data, depth) for _ in range(count))


def _map(data: _Bytes, depth: int) -> Map:
    return Map(tuple((_term(data, depth), _term(data, depth)) for _ in range(data.count(4, each=2))))


_READERS: Final[dict[int, Callable[[_Bytes, int], Term]]] = {
    70: _float,
    97: lambda data, _: data.number(1),
    98: lambda data, _: int.from_bytes(data.take(4), signed=True),
    99: _float_in_text,
    100: lambda data, _: _atom(data, data.number(2), "latin-1"),
    104: lambda data, depth: _tuple(data, depth, data.count(1)),
    105: lambda data, depth: _tuple(data, depth, data.count(4)),
    106: lambda data, _: [],
    107: lambda data, _: list(data.take(data.number(2))),
    108: _list,
    109: lambda data, _: data.take(data.number(4)),
    110: lambda data, _: _big(data, data.number(1)),
    111: lambda data, _: _big(data, data.number(4)),
    115: lambda data, _: _atom(data, data.number(1), "latin-1"),
    116: _map,
    118: lambda data, _: _atom(data, data.number(2), "utf-8"),
    119: lambda data, _: _atom(data, data.number(1), "utf-8"),
}


def text(term: Term) -> str | None:
    """A binary that is text both stores can keep, or None."""
    if not isinstance(term, bytes) or b"\x00" in term:
        return None
    try:
        return term.decode()
    except UnicodeDecodeError:
        return None


def entries(term: Term) -> tuple[tuple[Term, Term], ...] | None:
    """What a map or a keyword list holds, or None where it is neither."""
    if isinstance(term, Map):
        return term.pairs
    if isinstance(term, list) and term and all(map(_is_keyword, term)):
        return tuple(term)
    return None


def _is_keyword(term: Term) -> bool:
    return isinstance(term, tuple) and len(term) == 2 and isinstance(term[0], Atom)


def as_json(term: Term) -> Any:
    """Return the term as JSON values; what JSON cannot express gets a shape of its own and is not lost.

    A binary that is not text is {"base64": …}; an integer beyond 64 bits is a text; a map whose keys are not all names,
    or the same name twice, is a list of pairs.
    """
    match term:
        case Atom(name):
            return _CONSTANTS.get(name, term.shown)
        case int():
            return term if -_JSON_INT <= term < _JSON_INT else str(term)
        case bytes():
            known = text(term)
            return {"base64": b64encode(term).decode()} if known is None else known
    pairs = entries(term)
    if pairs is not None:
        return _object(pairs)
    return [as_json(one) for one in term] if isinstance(term, list | tuple) else term


def _object(pairs: tuple[tuple[Term, Term], ...]) -> Any:
    names = [key.shown if isinstance(key, Atom) else text(key) for key, _ in pairs]
    if None in names or len(set(names)) < len(names):
        return [[as_json(key), as_json(value)] for key, value in pairs]
    return {name: as_json(value) for name, (_, value) in zip(names, pairs, strict=True)}


def inspect(term: Term) -> str:
    """The term as Elixir's `inspect` writes it, whole."""
    match term:
        case Atom():
            return _shown_atom(term)
        case float():
            return _shown_float(term)
        case bytes():
            known = text(term)
            return f"<<{', '.join(map(str, term))}>>" if known is None else _quoted(known)
        case tuple():
            return f"{{{_joined(term)}}}"
        case Map(pairs):
            return f"%{{{_shown_pairs(pairs)}}}"
        case list():
            return _shown_list(term)
    return str(term)


def _joined(terms: Iterable[Term]) -> str:
    return ", ".join(map(inspect, terms))


def _shown_list(terms: list[Term]) -> str:
    if terms and all(isinstance(one, int) and 32 <= one < 127 for one in terms):
        return "~c" + _quoted(bytes(terms).decode())
    pairs = entries(terms)
    return f"[{_joined(terms) if pairs is None else _shown_pairs(pairs)}]"


def _shown_pairs(pairs: tuple[tuple[Term, Term], ...]) -> str:
    """`key: value` if all keys are atoms that are not modules, else `key => value`."""
    if all(isinstance(key, Atom) and not _MODULE.fullmatch(key.name) for key, _ in pairs):
        return ", ".join(f"{_shown_atom(key, bare=True)}: {inspect(value)}" for key, value in pairs)
    return ", ".join(f"{inspect(key)} => {inspect(value)}" for key, value in pairs)


def _shown_atom(atom: Atom, *, bare: bool = False) -> str:
    if not bare and (atom.name in _CONSTANTS or _MODULE.fullmatch(atom.name)):
        return atom.shown
    name = atom.name if _PLAIN_ATOM.fullmatch(atom.name) else _quoted(atom.name)
    return name if bare else f":{name}"


def _shown_float(number: float) -> str:
    mantissa, mark, exponent = repr(number).partition("e")
    whole = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{whole}e{int(exponent)}" if mark else whole


def _quoted(text: str) -> str:
    return '"' + _TO_ESCAPE.sub(lambda found: _ESCAPES[found[0]], text) + '"'
