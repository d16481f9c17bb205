"""Errors with `--json`: one JSON document on a line of stderr, in the words that HTTP's problem has."""

from __future__ import annotations

import click
from msgspec import UNSET, Struct, UnsetType
from msgspec.json import encode

from wakeful import views
from wakeful.errors import InvalidRequest, WakefulError


class ErrorView(Struct, frozen=True, kw_only=True):
    """What was wrong, with a stable `code`, the `field` at fault, and what to do instead."""

    code: str
    message: str
    field: str | UnsetType = UNSET
    fix: str | UnsetType = UNSET
    exit_status: int


def error_line(error: WakefulError) -> bytes:
    problem = views.problem(error)
    return _line(
        ErrorView(
            code=problem.code,
            message=error.message,
            field=problem.field,
            fix=problem.fix,
            exit_status=views.DOORS[error.code][1],
        )
    )


def usage_error(error: click.ClickException, message: str, fix: str) -> bytes:
    """A command line that was not understood is a request that is not valid."""
    param = getattr(error, "param", None)
    field = getattr(error, "option_name", "") or (param.opts[0] if param is not None else "")
    return _line(
        ErrorView(
            code=InvalidRequest.code,
            message=message,
            field=field or UNSET,
            fix=fix or UNSET,
            exit_status=error.exit_code,
        )
    )


def _line(view: ErrorView) -> bytes:
    return encode({"error": view})
