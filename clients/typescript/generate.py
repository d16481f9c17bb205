"""Write src/types.ts from wakeful's OpenAPI document: `python clients/typescript/generate.py`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from wakeful.http.app import OPERATIONS, document

TYPES: Final = Path(__file__).parent / "src" / "types.ts"
HEAD: Final = "// Generated from wakeful's OpenAPI document by generate.py: not edited by hand.\n"
PRIMITIVES: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
Schema = Mapping[str, Any]


def generated() -> str:
    api = document(OPERATIONS)
    schemas = sorted(api["components"]["schemas"].items())
    queries = [
        (operation["operationId"], [one for one in operation.get("parameters", ()) if one["in"] == "query"])
        for path in api["paths"].values()
        for operation in path.values()
    ]
    declared = [_declared(name, schema) for name, schema in schemas]
    return "\n".join([HEAD, *declared, *(_query(name, parameters) for name, parameters in queries if parameters)])


def _declared(name: str, schema: Schema) -> str:
    comment = _comment(schema.get("description", ""), "")
    if schema.get("type") != "object" or "properties" not in schema:
        return f"{comment}export type {name} = {_type(schema)};\n"
    required = schema.get("required", ())
    fields = [_field(key, one, key in required) for key, one in schema["properties"].items()]
    return f"{comment}export interface {name} {{\n{''.join(fields)}}}\n"


def _query(operation: str, parameters: list[Schema]) -> str:
    name = "".join(part.capitalize() for part in operation.split("_"))
    fields = [_field(one["name"], one["schema"] | {"description": one["description"]}, False) for one in parameters]
    return f"export interface {name}Query {{\n{''.join(fields)}}}\n"


def _field(name: str, schema: Schema, required: bool) -> str:
    optional, undefined = ("", "") if required else ("?", " | undefined")
    return f"{_comment(schema.get('description', ''), '  ')}  {name}{optional}: {_type(schema)}{undefined};\n"


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_type({**schema, "type": one}) for one in kind)
    if kind == "array":
        item = _type(schema.get("items", {}))
        return f"({item})[]" if " | " in item else f"{item}[]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {_type(values) if isinstance(values, Mapping) else 'unknown'}>"
    return PRIMITIVES.get(str(kind), "unknown")


def _comment(text: str, indent: str) -> str:
    said = re.sub(r"\s+", " ", text.replace("*/", "* /")).strip()
    return f"{indent}/** {said} */\n" if said else ""


if __name__ == "__main__":
    sys.exit(TYPES.write_text(generated()) == 0)
