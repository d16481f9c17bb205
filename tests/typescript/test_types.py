"""The generated types of the TypeScript client, which need no Node to be checked."""

from __future__ import annotations

import json
import runpy

from tests.typescript.package import SOURCE
from wakeful import __version__


def test_the_types_are_those_of_the_openapi_document() -> None:
    generator = runpy.run_path(str(SOURCE / "generate.py"))
    stale = "src/types.ts is stale: run `python clients/typescript/generate.py`"
    assert (SOURCE / "src" / "types.ts").read_text() == generator["generated"](), stale


def test_the_package_has_no_dependencies_and_the_version_of_wakeful() -> None:
    package = json.loads((SOURCE / "package.json").read_text())
    assert "dependencies" not in package
    assert package["version"] == __version__
    assert all(version[0].isdigit() for version in package["devDependencies"].values())
