"""The table of HTTP operations: their parameters, required scope and possible answers.

One table drives routing, the check of query parameters and the OpenAPI document, so they always agree.
Its parts are next to their operations: alarms, fires, live events, health, DID sign-in.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypeVar, cast, get_type_hints

from msgspec import Struct
from starlette.requests import Request
from starlette.types import ASGIApp

from wakeful.errors import InvalidRequest
from wakeful.moments import read_cursor
from wakeful.rules.create import TEXT_LIMIT, check_text
from wakeful.rules.wanted import moment as read_moment
from wakeful.service.caller import Caller

LIMIT: Final = 500
DEFAULT_LIMIT: Final = 100
PAGE_SIZE: Final = 4_000_000  # characters of rows on a page, but always one row: then comes its cursor
_UNIX: Final = re.compile(r"\d{1,12}(\.\d{1,6})?")
_NUMBER: Final = re.compile(r"\d{1,9}(\.\d{1,6})?")
_PLUS_LOST: Final = re.compile(r"(T[\d:.]+) (\d\d:\d\d)$")
T = TypeVar("T")
_FILTER_NAMES: Final = {"statuses": "status", "text": "q"}  # in an address


class Parameter(Struct, frozen=True):
    """A query parameter: how it is read, and how it is documented."""

    name: str
    says: str
    schema: Mapping[str, Any]
    read: Callable[[str, str], Any]
    default: Any = None


class Header(Struct, frozen=True):
    name: str
    says: str
    pattern: str


class TextParameter(Struct, frozen=True):
    """An answer that is not JSON: its media types, the default first, and its content."""

    media: tuple[str, ...]
    says: str
    tells: Any = None  # the type of what is told in it, for those who take it apart


class Operation(Struct, frozen=True, kw_only=True):
    method: Literal["GET", "POST", "PATCH", "DELETE"]
    path: str
    run: Callable[[Any, OperationRequest], Awaitable[ASGIApp]]
    says: str
    scope: Literal["calendar", "read", "write", "admin", ""]
    answers: Mapping[int, Any]  # the type of the JSON, or Text
    query: tuple[Parameter, ...] = ()
    headers: tuple[Header, ...] = ()
    body: Any = None
    body_optional: bool = False
    refuses: tuple[int, ...] = ()
    waits: bool = False  # may take longer than an answer should: it has a limit of its own
    for_wakes: bool = False  # also done with the token of a wake, within its chain
    own_token: bool = False  # also takes a credential that only it knows, and checks that itself
    safe: bool = True  # a GET that changes something is not answered to HEAD

    @property
    def statuses(self) -> tuple[int, ...]:
        """Return every status this operation can answer with, except that of an internal error."""
        found = {*self.answers, *self.refuses, 400, 403, 405, 421, 503}
        if self.scope:
            found |= {401, 429}
        if "{" in self.path:
            found.add(404)
        if self.body is not None:
            found |= {408, 413, 415}
        return tuple(sorted(found))


class OperationRequest:
    """One request to one operation: its caller and its query."""

    __slots__ = ("caller", "query", "request")

    def __init__(self, request: Request, query: Mapping[str, Any], caller: Caller) -> None:
        self.request = request
        self.query = query
        self.caller = caller

    def __getitem__(self, name: str) -> Any:
        return self.query[name]

    @property
    def id(self) -> str:
        return cast(str, self.request.path_params["id"])

    @property
    def fire_id(self) -> str:
        return cast(str, self.request.path_params["fire_id"])


def read_query(request: Request, known: Sequence[Parameter]) -> dict[str, Any]:
    """Read the query of a request: only known parameters, each at most once."""
    found = {parameter.name: parameter.default for parameter in known}
    if not request.scope["query_string"]:
        return found
    readers = {parameter.name: parameter.read for parameter in known}
    seen: set[str] = set()
    for name, value in request.query_params.multi_items():
        if name not in readers:
            fix = f"Known names: {', '.join(readers)}." if readers else "This route takes no query parameters."
            raise InvalidRequest("there is no such query parameter", field=name[:100], fix=fix)
        if name in seen:
            raise InvalidRequest("it was given more than once", field=name, fix="Give it once.")
        seen.add(name)
        check_text(name, value, TEXT_LIMIT)
        if value:
            found[name] = readers[name](name, value)
    return found


# Kinds of parameters


def text(name: str, says: str) -> Parameter:
    return Parameter(name, says, {"type": "string", "maxLength": TEXT_LIMIT}, lambda _, value: value, "")


def filters(of: type[Struct], statuses: Sequence[str], **accepted: Sequence[str]) -> tuple[Parameter, ...]:
    """The parameters of a filter, with the descriptions of its fields."""
    hints = get_type_hints(of, include_extras=True)

    def parameter(field: str) -> Parameter:
        name, says = _FILTER_NAMES.get(field, field), str(hints[field].__metadata__[0].description)
        if field == "statuses":
            return several(name, statuses, says)
        if field in accepted:
            return choice(name, accepted[field], says)
        return text(name, says) if hints[field].__origin__ is str else moment(name, says)

    return tuple(map(parameter, of.__struct_fields__))


def filter_values(of: type[Struct], call: OperationRequest) -> dict[str, Any]:
    """What a request says of a filter's fields, as the verbs take it."""
    values = {field: call[_FILTER_NAMES.get(field, field)] for field in of.__struct_fields__}
    return {"status": values.pop("statuses"), **values}


def choice(name: str, accepted: Sequence[str], says: str) -> Parameter:
    def read(name: str, value: str) -> str:
        return _among(name, value, accepted)

    return Parameter(name, says, {"type": "string", "enum": ["", *accepted]}, read, "")


def several(name: str, accepted: Sequence[str], says: str) -> Parameter:
    """Define a parameter with one or several values, separated by commas."""
    one = "|".join(accepted)

    def read(name: str, value: str) -> tuple[str, ...]:
        return tuple(_among(name, part.strip(), accepted) for part in value.split(","))

    schema = {"type": "string", "pattern": f"^(({one})(,({one}))*)?$", "examples": [accepted[0]]}
    return Parameter(name, f"{says} Several are separated by commas: {', '.join(accepted)}.", schema, read, ())


def moment(name: str, says: str) -> Parameter:
    def read(name: str, value: str) -> datetime:
        if _UNIX.fullmatch(value):
            return read_moment(float(value), name)
        # An offset's plus sign that was not written %2B arrives as a space.
        return read_moment(_PLUS_LOST.sub(r"\1+\2", value), name)

    schema = {"type": "string", "examples": ["2026-01-01T00:00:00Z", "1767225600"]}
    return Parameter(name, f"{says} RFC 3339 with an offset, or unix seconds.", schema, read)


def moment_or_ago(name: str, says: str) -> Parameter:
    """Define a parameter that is a moment, or a length of time that counts back from now: the verb reads the latter."""
    plain = moment(name, says)

    def read(name: str, value: str) -> datetime | str:
        try:
            found: datetime = plain.read(name, value)
        except InvalidRequest:
            return value
        return found

    schema = {"type": "string", "examples": ["2026-01-01T00:00:00Z", "8h"]}
    return Parameter(name, f"{plain.says} Or how long ago, such as 8h.", schema, read)


def whole(name: str, least: int, most: int, default: int, says: str) -> Parameter:
    def read(name: str, value: str) -> int:
        number = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else -1
        if not least <= number <= most:
            raise InvalidRequest(f"{value!r} is not a number from {least} to {most}", field=name)
        return number

    schema = {"type": "integer", "minimum": least, "maximum": most, "default": default}
    return Parameter(name, says, schema, read, default)


def amount(name: str, most: float, default: float, says: str) -> Parameter:
    """Define a parameter that is a number of 0 or more, possibly with decimals."""

    def read(name: str, value: str) -> float:
        if not _NUMBER.fullmatch(value) or float(value) > most:
            raise InvalidRequest(f"{value!r} is not a number from 0 to {most:g}", field=name)
        return float(value)

    return Parameter(name, says, {"type": "number", "minimum": 0, "maximum": most, "default": default}, read, default)


def _among(name: str, value: str, accepted: Sequence[str]) -> str:
    if value not in accepted:
        raise InvalidRequest(f"{value!r} is not accepted", field=name, fix=f"Accepted: {', '.join(accepted)}.")
    return value


def _read_cursor(name: str, value: str) -> tuple[datetime, str]:
    try:
        return read_cursor(value)
    except (ValueError, OverflowError):
        raise InvalidRequest(
            "this is not a cursor", field=name, fix="Use the next_cursor of an earlier answer."
        ) from None


CURSOR: Final = Parameter("cursor", "The next_cursor of the previous page.", {"type": "string"}, _read_cursor)
PAGE: Final = whole("limit", 1, LIMIT, DEFAULT_LIMIT, "The most to return; fewer if they are long.")
