"""The settings of `[checks.NAME]`: what an alarm with `only_if` looks at before it wakes anybody."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta, Struct

from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.schedule import duration

LONGEST_LOOK: Final = 60.0  # seconds
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


def _about(text: str) -> Meta:
    return Meta(description=text)


class CheckSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[str, _about("What is looked at, with GET; http or https.")] = ""
    changed: Annotated[str, _about("Of the answer: `status`, `etag`, or a JSON pointer such as `/data/0/id`.")] = (
        "status"
    )
    headers: Annotated[dict[str, str], _about("More headers, for example for a token.")] = {}
    allow_private: Annotated[
        bool | list[str], _about("Private addresses and loopback too: `true`, or a list of networks.")
    ] = False
    sql: Annotated[str, _about("In place of `url`: a query on wakeful's own database; its rows are looked at.")] = ""
    timeout: Annotated[float | str, _about("How long a look may take, up to 60 s.")] = 10.0

    @property
    def within(self) -> float:
        """Seconds."""
        return duration(self.timeout).total_seconds()


def check_checks(checks: Mapping[str, CheckSettings]) -> None:
    """InvalidConfig for a check that cannot be looked at."""
    for name, check in checks.items():
        place = f"checks.{name}"
        if not _NAME.fullmatch(name):
            fix = "Use letters, digits and . _ : - behind a letter or a digit, at most 100."
            raise InvalidConfig(f"{name[:120]!r} is not a name of a check", field="checks", fix=fix)
        if bool(check.url) == bool(check.sql):
            raise InvalidConfig("it needs one thing to look at", field=place, fix="Give url, or sql.")
        if check.changed not in ("status", "etag") and not check.changed.startswith("/"):
            fix = "Give status, etag, or a JSON pointer such as /data/0/id."
            raise InvalidConfig(f"{check.changed!r} is not accepted", field=f"{place}.changed", fix=fix)
        _check_timeout(check, place)


def _check_timeout(check: CheckSettings, place: str) -> None:
    fix = f"Give more than 0 s and at most {LONGEST_LOOK:g} s."
    try:
        within = check.within
    except InvalidRequest as error:
        raise InvalidConfig(error.message, field=f"{place}.timeout", fix=fix) from None
    if not 0 < within <= LONGEST_LOOK:
        raise InvalidConfig(f"{check.timeout!r} is not accepted", field=f"{place}.timeout", fix=fix)
