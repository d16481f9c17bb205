"""A pytest plugin that plants one fault: `WAKEFUL_TEST_MUTANT=name pytest -p tests.mutants.plant …`.

A fault is a fragment of SQL or of a decision's source, and what stands there instead. A fragment that is not found ends
the run with a status of its own: the code was rewritten, and the fault has to be found again in it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any, Final

from .faults import FAULTS, Fault, Several, Source, Sql

NOT_FOUND: Final = 70
VARIABLE: Final = "WAKEFUL_TEST_MUTANT"


def plant(name: str) -> None:
    fault = FAULTS[name]
    if not isinstance(fault, Sql):
        for source in fault.sources if isinstance(fault, Several) else (fault,):
            sys.meta_path.insert(0, _Finder(source))
        return
    from wakeful.store import queries

    real = queries.queries

    def altered(dialect: Any, naming: Any) -> dict[str, str]:
        found = real(dialect, naming)
        return _altered(found, fault) if dialect == fault.dialect else found

    queries.queries = altered


def _altered(statements: dict[str, str], fault: Sql) -> dict[str, str]:
    places = [name for name in fault.statements if fault.old in statements.get(name, "")]
    if not places:
        _not_found(fault)
    return statements | {name: statements[name].replace(fault.old, fault.new) for name in places}


class _Finder:
    """Hands out the one module with the fault in it; all others come as ever."""

    def __init__(self, fault: Source) -> None:
        self._fault = fault

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._fault.module:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, self._fault)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, fault: Source) -> None:
        super().__init__(fullname, path)
        self._fault = fault

    def get_code(self, fullname: str) -> CodeType:  # not from the cache
        source = self.get_data(self.path).decode()
        if source.count(self._fault.old) != 1:
            _not_found(self._fault)
        code: CodeType = compile(source.replace(self._fault.old, self._fault.new), self.path, "exec")
        return code


def _not_found(fault: Fault) -> None:
    print(f"not found, or not once: {fault}", file=sys.stderr, flush=True)
    os._exit(NOT_FOUND)


if name := os.environ.get(VARIABLE):
    plant(name)
