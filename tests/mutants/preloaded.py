"""Runs tests with a planted fault in a process that is forked from one which has imported pytest and all libraries.

Importing them takes longer than most of these tests. wakeful itself is imported after the fork: the fault is in it.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import Struct

from .plant import VARIABLE, plant

WITHIN: Final = 300  # seconds
PLUGINS: Final = ("_hypothesis_pytestplugin", "pytest_asyncio.plugin")  # not all that pytest would find by itself
LIBRARIES: Final = (
    *PLUGINS,
    "aiohttp.web",
    "apsw",
    "asyncpg",
    "click",
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "holidays",
    "httpx2",
    "hypothesis.stateful",
    "jinja2",
    "mcp.server",
    "prometheus_client",
    "psutil",
    "pytest",
    "rich.console",
    "starlette.applications",
    "uvicorn",
    "websockets",
)

_forking = multiprocessing.get_context("forkserver")
_forking.set_forkserver_preload([__name__, *LIBRARIES])


class Ran(Struct, frozen=True):
    status: int | None  # that pytest ended with
    output: str


def run(fault: str, tests: list[str], root: Path, environ: dict[str, str]) -> Ran:
    """These tests with this fault, or without one where it is empty."""
    with TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        process = _forking.Process(target=_run, args=(fault, tests, root, output, environ))
        process.start()
        process.join(WITHIN)
        if process.is_alive():
            process.kill()
            process.join()
        ran = Ran(process.exitcode, output.read_text(errors="replace"))
        process.close()
    return ran


def _run(fault: str, tests: list[str], root: Path, output: Path, environ: dict[str, str]) -> None:
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    assert not any(name.split(".")[0] == "wakeful" for name in sys.modules), "the fault would come too late"
    os.environ.update(environ, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTEST_ADDOPTS="")
    os.environ["PYTHONPATH"] = os.pathsep.join((str(root / "src"), str(root)))
    os.environ[VARIABLE] = fault  # for processes that the tests start
    os.chdir(root)
    if fault:
        plant(fault)
    import pytest

    options = ["-p", "wakeful.testing.plugin", "-p", "no:cacheprovider", "-x", "--tb=short"]
    status = pytest.main([*options, *tests], plugins=[sys.modules[name] for name in PLUGINS])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
