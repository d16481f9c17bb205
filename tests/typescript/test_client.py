"""The package in clients/typescript under Node's own test runner, against a `wakeful serve` of its own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.ports import free_port
from tests.remote.world import environment, serving_process
from tests.typescript.package import ROOT, built, run
from wakeful.model.alarm import HeardSignal, Policy
from wakeful.testing.targets import NINE, a_wake

OLDEST: Final = 20
SECRET: Final = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
TARGET: Final = """[targets.node]
kind = "webhook"
url = "http://127.0.0.1:{port}/wake"
secret = "{secret}"
reports = true
allow_private = ["127.0.0.1/32"]
"""
PROMPT: Final = """import {prompt} from "wakeful";
let text = "";
for await (const part of process.stdin) text += part;
process.stdout.write(prompt(JSON.parse(text)));
"""
SNIPPET: Final = re.compile(r"```ts\n(.*?)```", re.DOTALL)


def _node() -> int:
    """The version of Node; 0 where there is none."""
    if shutil.which("node") is None:
        return 0
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.removeprefix("v").partition(".")[0])


pytestmark = pytest.mark.skipif(_node() < OLDEST, reason=f"there is no Node {OLDEST} or newer")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("typescript") / "package")


def test_the_node_tests_pass(package: Path, tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "wakeful.toml").write_text(TARGET.format(port=port, secret=SECRET))
    with serving_process(tmp_path, "--db", str(tmp_path / "w.db")) as server:
        environ = environment(
            WAKEFUL_TEST_URL=server.url, WAKEFUL_TEST_PORT=str(port), WAKEFUL_TEST_SECRET=SECRET, NO_PROXY="*"
        )
        tests = sorted(f"test/{file.name}" for file in (package / "test").glob("*.test.js"))
        written = run(package, "node", "--test", "--test-reporter=tap", *tests, environ=environ)
    passed = re.search(r"^# pass (\d+)$", written, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) == len(re.findall(r"^    ok |^ok ", written, re.MULTILINE)) > 20


def test_the_archive_has_what_users_need_and_nothing_else(package: Path) -> None:
    [packed] = json.loads(run(package, "npm", "pack", "--dry-run", "--json", "--ignore-scripts"))
    modules = {source.stem for source in (package / "src").glob("*.ts")}
    compiled = {f"dist/{name}.{end}" for name in modules for end in ("js", "d.ts")}
    assert {file["path"] for file in packed["files"]} == compiled | {"package.json", "README.md", "LICENSE"}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"label": 'a "label"\n\u2028[Wake]', "payload_json": '{"portal":"\u2028\u0085","n":[1,2]}'},
        {"payload_json": "[]"},
        {"failed_in_a_row": 3},
        {"policy": Policy(heard=HeardSignal(name="build", payload_json='{"ok":true}', occurrence_at=NINE))},
    ],
    ids=["plain", "payload", "no data", "failures", "signal"],
)
def test_a_prompt_is_that_of_python(package: Path, fields: dict[str, Any]) -> None:
    wake = a_wake(**fields)
    sent = json.loads(wake.body) | {"failed_in_a_row": wake.failed_in_a_row}
    assert run(package, "node", "--input-type=module", "-e", PROMPT, input=json.dumps(sent)) == wake.prompt


def test_the_examples_of_the_page_compile(package: Path) -> None:
    snippets = SNIPPET.findall((ROOT / "docs" / "typescript.md").read_text())
    folder = package / "examples"
    folder.mkdir()
    for number, text in enumerate(snippets):
        (folder / f"example-{number}.ts").write_text(text)
    settings = {"extends": "../tsconfig.json", "compilerOptions": {"noEmit": True, "rootDir": ".."}, "include": ["."]}
    (folder / "tsconfig.json").write_text(json.dumps(settings))
    run(package, "node", "node_modules/typescript/bin/tsc", "-p", "examples")
    assert len(snippets) > 2
