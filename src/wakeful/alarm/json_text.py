"""JSON that a caller hands in as a value, or as bytes that are passed through unread. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from wakeful.errors import InvalidRequest


def json_of(value: Any, field: str = "payload") -> Raw:
    """Encode any JSON value; `msgspec.Raw` passes its bytes through unchanged."""
    try:
        encoded = msgspec.json.encode(value)
        # NaN and the infinities are written as null, so only what holds one is looked through for them.
        is_safe = b"null" not in encoded or isinstance(value, Raw)
        odd = None if is_safe else _not_finite(msgspec.to_builtins(value, enc_hook=_as_it_is))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"it cannot be written as JSON ({error})", field=field) from None
    if odd is not None:
        fix = "Give a number, null or a text in its place."
        raise InvalidRequest(f"it holds {odd}, which JSON does not have", field=field, fix=fix)
    return Raw(encoded)


def _as_it_is(value: Any) -> Any:
    if isinstance(value, Raw):
        return None  # JSON already, so it holds none
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def _not_finite(value: Any) -> float | None:
    """The first number within that is NaN or infinite."""
    if isinstance(value, float):
        return None if math.isfinite(value) else value
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return next((odd for one in inner if (odd := _not_finite(one)) is not None), None)


def raw_text(raw: Raw) -> str:
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError as error:  # what is passed through unread is not checked by the decoder either
        raise InvalidRequest(f"it is not UTF-8 ({error})", field="payload", fix="Send JSON in UTF-8.") from None
