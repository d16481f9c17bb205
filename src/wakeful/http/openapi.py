"""Build the OpenAPI 3.1 document from the table of operations and the types that validate requests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from wakeful._version import __version__
from wakeful.alarm.request import CreateRequest
from wakeful.http.operations import Operation, Parameter, TextParameter
from wakeful.views import Problem

_REF: Final = "#/components/schemas/{name}"
_PLACES: Final = re.compile(r"{(\w+)}")
_MODULE: Final = re.compile(r".*[._]")
_IDS: Final = {
    "id": "The id of an alarm.",
    "fire_id": "The id of a fire: <alarm id>@<unix milliseconds>.",
    "token_id": "The id of a token: the part between its first and its second underscore.",
    "name": "The name of a signal.",
}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    types: list[Any] = [CreateRequest, Problem]
    for operation in operations:
        types += [one.tells if isinstance(one, TextParameter) else one for one in operation.answers.values()]
        types.append(operation.body)
    unique = [kind for kind in dict.fromkeys(types) if kind is not None]
    schemas, components = msgspec.json.schema_components(unique, ref_template=_REF)
    refs = dict(zip(unique, schemas, strict=True))
    # What is in an item is judged item by item: a bad one is answered in its place.
    if "BatchBody" in components:
        components["BatchBody"]["properties"]["alarms"]["items"] = {"anyOf": [refs[CreateRequest], {}]}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, refs)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "wakeful",
            "version": __version__,
            "summary": "A durable alarm clock for AI agents and services",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "wk_…"}},
        },
    }


def _operation(operation: Operation, refs: dict[Any, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "operationId": f"{_MODULE.sub('', operation.run.__module__)}_{operation.run.__name__}",
        "summary": operation.says,
        "parameters": _parameters(operation),
        "responses": {str(status): _response(operation, status, refs) for status in operation.statuses},
    }
    if not shown["parameters"]:
        del shown["parameters"]
    if operation.for_wakes:
        shown["description"] = "Also with the token of a wake, within its chain."
    if not operation.scope:
        shown["security"] = []  # open to everyone
    if operation.body is not None:
        shown["requestBody"] = {
            "required": not operation.body_optional,
            "content": {"application/json": {"schema": refs[operation.body]}},
        }
    return shown


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    places = [
        {"name": name, "in": "path", "required": True, "description": _IDS[name], "schema": {"type": "string"}}
        for name in _PLACES.findall(operation.path)
    ]
    headers = [
        {
            "name": header.name,
            "in": "header",
            "description": header.says,
            "schema": {"type": "string", "pattern": header.pattern},
        }
        for header in operation.headers
    ]
    return [*places, *(_parameter(parameter) for parameter in operation.query), *headers]


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {"name": parameter.name, "in": "query", "description": parameter.says, "schema": dict(parameter.schema)}


def _response(operation: Operation, status: int, refs: dict[Any, Any]) -> dict[str, Any]:
    phrase = HTTPStatus(status).phrase
    match operation.answers.get(status):
        case None:
            return {"description": phrase, "content": {"application/problem+json": {"schema": refs[Problem]}}}
        case TextParameter(media=media, says=says):
            return {"description": says, "content": {one: {"schema": {"type": "string"}} for one in media}}
        case kind:
            return {"description": phrase, "content": {"application/json": {"schema": refs[kind]}}}
