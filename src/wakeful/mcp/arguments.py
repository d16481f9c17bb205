"""Build the arguments of tools from the common requests: the same fields with the same descriptions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Struct, UnsetType

from wakeful.alarm.request import AGENTS


def arguments(
    name: str,
    request: type[Struct],
    fields: Collection[str],
    *,
    required: Collection[str] = (),
    renamed: Mapping[str, str] | None = None,
    other: Mapping[str, Any] | None = None,
    base: type[Struct] | None = None,
    about: str = "",
) -> Any:
    """A type with these fields of a request. What need not be said is left out; null is the same (`without_nulls`).

    `renamed`: the name an agent knows a field by. `other`: types that are different for an agent. `base`: what there is
    besides.
    """
    kinds = {field: _said(kind) for field, kind in get_type_hints(request, include_extras=True).items()}
    kinds |= other or {}
    names = {field: (renamed or {}).get(field, field) for field in fields}
    said: list[Any] = [
        (names[field], kinds[field]) if field in required else (names[field], kinds[field] | UnsetType, UNSET)
        for field in fields
    ]
    return msgspec.defstruct(
        name,
        said,
        bases=(base or Struct,),
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
        namespace={"__doc__": about},
    )


def without_nulls(arguments: Mapping[str, Any], kind: type[Struct]) -> dict[str, Any]:
    """The arguments that are given: null means that one is not, as some clients send for each that nobody named.

    Only for arguments of this type: in a payload, and in the policy of an edit, null is a value.
    """
    nested = _structs(kind)
    known = {name: value for name, value in arguments.items() if value is not None or name not in nested}
    return {
        name: without_nulls(value, inner) if (inner := nested.get(name)) and isinstance(value, Mapping) else value
        for name, value in known.items()
    }


@cache
def _structs(kind: type[Struct]) -> dict[str, type[Struct] | None]:
    """The arguments of a type, each with the type of its own arguments, if it has some."""
    hints = get_type_hints(kind)
    inner = [get_args(hints[name]) or (hints[name],) for name in kind.__struct_fields__]
    found = [next((one for one in kinds if isinstance(one, type) and issubclass(one, Struct)), None) for kinds in inner]
    return dict(zip(kind.__struct_encode_fields__, found, strict=True))


def offered(request: type[Struct]) -> tuple[str, ...]:
    """The fields of a request that agents get, as `about` marks them."""
    hints = get_type_hints(request, include_extras=True)
    return tuple(name for name in request.__struct_fields__ if _is_offered(hints[name]))


def _is_offered(kind: Any) -> bool:
    words = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
    return not any(meta.extra == {AGENTS: False} for meta in words if isinstance(meta, msgspec.Meta))


def _said(kind: Any) -> Any:
    """The type of a field without its None, with its words."""
    if get_origin(kind) is not Annotated:
        return kind
    inner, *words = get_args(kind)
    if get_origin(inner) is Literal:
        return kind
    some = tuple(part for part in get_args(inner) or (inner,) if part is not type(None))
    return Annotated[(Union[some], *words)]  # noqa: UP007 (made at run time)
