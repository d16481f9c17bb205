"""Documentation that cannot lie: the examples in the README and the library page are run."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import msgspec
import pytest

from wakeful.settings import Settings

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
SOURCE = ROOT / "src" / "wakeful"


def programs(page: str) -> list[str]:
    """The Python blocks of a page that are whole programs."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return [block for block in blocks if "asyncio.run(" in block]


def test_the_library_page_has_a_program_that_runs(tmp_path: Path) -> None:
    [program] = programs("docs/python.md")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert "read the grant portal, page 3" in done.stdout


def test_the_readme_s_program_delivers_its_wake(tmp_path: Path) -> None:
    [program] = programs("README.md")
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert "Check the grant portal {'page': 3}" in process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def test_the_readme_s_first_program_is_woken_and_prints_what_stands_below_it(tmp_path: Path) -> None:
    first, *_ = re.findall(r"```python\n(.*?)```\n.*?```\n(.*?)```.*?```\n(.*?)```", README.read_text(), re.DOTALL)
    program, printed, told = first
    with subprocess.Popen(
        [sys.executable, "-u", "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in printed.splitlines()]
        process.send_signal(signal.SIGTERM)  # the wake under way is finished and reported
        assert process.wait(60) == 0
    history = subprocess.run(
        [sys.executable, "-m", "wakeful.cli", "history", "--db", "wakeful.db"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert _unnumbered("".join(said)) == _unnumbered(printed)
    assert _unnumbered(history.stdout).split() == _unnumbered(told).split()


def _unnumbered(text: str) -> str:
    """Without moments and ids, which differ each time."""
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}@\d+|\d{4}-\d\d-\d\dT[\d:.]+Z", "…", text)


def test_the_tests_on_the_library_page_pass(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.DOTALL)
    (tmp_path / "test_it.py").write_text("\n".join(block for block in blocks if "async def test_" in block))
    command = [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", "-c", "/dev/null", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "2 passed" in done.stdout, done.stdout


@pytest.mark.parametrize("page", sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")))
def test_every_link_between_pages_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    for link in re.findall(r"\]\(([^)#\s]+)\)", text):
        if "://" not in link:
            assert ((ROOT / page).parent / link).exists(), link


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_every_link_of_a_page_outside_docs_leads_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", (ROOT / page).read_text()):
        assert "://" in link or (ROOT / link).exists(), link


def test_every_function_the_architecture_page_sends_a_reader_to_exists() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = page.partition("| question | file and function |")[2].partition("\n\n")[0]
    found = 0
    file = ""
    for name in re.findall(r"`([\w./]+)`", rows):
        if "/" in name or name.endswith((".py", ".md")):
            file = name
        elif file.endswith(".sql"):
            assert f"-- name: {name}\n" in (SOURCE / file).read_text(), (file, name)
            found += 1
        else:
            module = ".".join(["wakeful", *file.removesuffix(".py").removesuffix("__init__").strip("/").split("/")])
            assert attrgetter(name)(import_module(module)) is not None, (file, name)
            found += 1
    assert found > 30


def test_every_package_on_the_map_exists_and_every_package_is_on_it() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    packages = page.partition("src/wakeful/\n")[2].partition("```")[0]
    there = {path.name for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    there = {name for name in there if not name.startswith("_")}
    named = {name.strip("/") for name in re.findall(r"^  ([\w.]+/?) ", packages, re.MULTILINE)}
    assert named == there


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/internals.md"])
def test_every_module_that_a_page_on_the_code_names_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    named = {*re.findall(r"`([\w/]+/)`", text), *re.findall(r"[\w/.]*\w\.(?:py|sql)\b", text)}  # in drawings too
    assert len(named) > 20
    missing = [name for name in named if not (SOURCE / name).exists() and not (ROOT / name).exists()]
    assert missing == []


def test_every_module_that_a_docstring_or_a_comment_names_exists() -> None:
    name = re.compile(r"(?<![\w/.])\w+(?:/\w+)*/\w+\.(?:py|sql|md)\b")
    missing = [
        (str(path.relative_to(ROOT)), named)
        for path in sorted(SOURCE.rglob("*"))
        if path.suffix in {".py", ".sql"}
        for named in name.findall(path.read_text())
        if not any((base / named).exists() for base in (SOURCE, SOURCE.parent, ROOT, path.parent))
    ]
    assert missing == []


def test_the_security_page_names_settings_that_exist() -> None:
    """An operator who looks for one must find it."""
    targets = {"owners", "secret", "previous_secret", "allow_private", "table", "notify", "command"}
    targets |= {"langgraph", "a2a", "openai_session", "slack", "discord", "telegram", "ntfy"}
    known = (
        {field.name for field in msgspec.structs.fields(Settings)}
        | targets
        | {"why", "serve", "worker", "restore", "admin", "scheduled_tasks", "wakeful", "wakeful_serve"}
    )
    named = set(re.findall(r"`([a-z_]+)`", (ROOT / "docs/security.md").read_text()))
    assert named - known == set()
    assert {"public_url", "owners", "quota_bytes", "allow_private", "schema"} <= named
