"""A server's refusal as the very error that the same verb raises on a database. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from wakeful import errors
from wakeful.errors import (
    Conflict,
    Forbidden,
    InvalidConfig,
    InvalidRequest,
    NotFound,
    StaleVersion,
    StoreUnavailable,
    TooMany,
    Unauthorized,
    WakefulError,
)

_BY_CODE: Final[dict[str, type[WakefulError]]] = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, WakefulError)
}
# What only HTTP knows has codes of its own: the status says what it amounts to.
_BY_STATUS: Final[dict[int, type[WakefulError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: StaleVersion,
    421: InvalidConfig,
    429: TooMany,
}


def error_of(status: int, body: bytes, *, retry_after: float | None = None, url: str = "") -> WakefulError:
    """What the server refused, with its field and its fix; what does not speak as wakeful does is said to be that."""
    try:
        told = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        told = {}
    if not isinstance(told.get("detail"), str) or not isinstance(told.get("code"), str):
        return _stranger(status, url)
    kind = _BY_CODE.get(told["code"]) or _BY_STATUS.get(status)
    if kind is None:
        kind = InvalidRequest if status < 500 else StoreUnavailable
    field, fix = str(told.get("field", "")), str(told.get("fix", ""))
    error = kind(_message(told["detail"], field, fix), field=field, fix=fix)
    if isinstance(repair := told.get("repair"), dict):
        error.repair = repair
    if isinstance(error, TooMany):
        error.retry_after = retry_after
    return error


def _message(detail: str, field: str, fix: str) -> str:
    """What is left of `str(error)` without the field before it and the fix behind it."""
    return detail.removeprefix(f"{field}: " if field else "").removesuffix(f" {fix}" if fix else "").removesuffix(".")


def _stranger(status: int, url: str) -> WakefulError:
    if status >= 500:
        return StoreUnavailable(f"{url} answered {status}", field="url", fix="Look at what stands before the server.")
    if 300 <= status < 400:
        return InvalidConfig(
            f"{url} answered {status} and sends us elsewhere", field="url", fix="Give the address it leads to."
        )
    return InvalidConfig(
        f"{url} answered {status}, and not as wakeful does", field="url", fix="Give the address of a `wakeful serve`."
    )
