"""What a wheel and a source package must hold, read from the packages themselves."""

from __future__ import annotations

import base64
import csv
import hashlib
import subprocess
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import parse_sdist_filename, parse_wheel_filename

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "wakeful"
_NEEDED = {"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "pyproject.toml", "scripts/serve", "docs/index.md"}


class PackageError(Exception):
    """A package that must not be published, and why."""


def require(condition: object, why: str) -> None:
    if not condition:
        raise PackageError(why)


def program_files() -> set[str]:
    """Every file of the program in this folder, by its name in a wheel."""
    there = (path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {f"wakeful/{path.relative_to(SOURCE).as_posix()}" for path in there}


def check_wheel(file: Path) -> None:
    """PackageError unless the wheel has all of the program, nothing else, and says truly what it is."""
    with zipfile.ZipFile(file) as wheel:
        content = {name: wheel.read(name) for name in wheel.namelist()}
    info = next(name.partition("/")[0] for name in content if ".dist-info/" in name)
    program = {name for name in content if not name.startswith(f"{info}/")}
    _same(program, program_files(), file.name)
    require({"wakeful/py.typed", f"{info}/licenses/LICENSE"} <= set(content), f"{file.name}: no py.typed or no licence")
    require(any(name.endswith(".sql") for name in program), f"{file.name}: no SQL")
    entries = content[f"{info}/entry_points.txt"].decode()
    require("wakeful = wakeful.cli:main" in entries, f"{file.name}: no program `wakeful`")
    _check_record(content, f"{info}/RECORD", file.name)
    name, version, _, _ = parse_wheel_filename(file.name)
    _check_metadata(message_from_bytes(content[f"{info}/METADATA"]), (str(name), str(version)), file.name)


def check_sdist(file: Path) -> None:
    """PackageError unless the source package has what was committed, and nothing that was not."""
    with tarfile.open(file) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        content = {member.name.partition("/")[2]: member for member in members}
        metadata = archive.extractfile(content["PKG-INFO"])
        require(metadata, f"{file.name}: no metadata")
        assert metadata is not None
        name, version = parse_sdist_filename(file.name)
        _check_metadata(message_from_bytes(metadata.read()), (str(name), str(version)), file.name)
    source = {name.removeprefix("src/") for name in content if name.startswith("src/")}
    _same(source, program_files(), file.name)
    require(set(content) >= _NEEDED, f"{file.name} lacks {', '.join(sorted(_NEEDED - set(content)))}")
    if (known := _known_to_git()) is not None:
        _same(set(content) - {"PKG-INFO"}, known, file.name)


def requirements(metadata: Message) -> list[Requirement]:
    """What the program needs without any of its extras."""
    given = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    return [one for one in given if one.marker is None or one.marker.evaluate({"extra": ""})]


def _check_metadata(metadata: Message, named: tuple[str, str], file: str) -> None:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    require((metadata["Name"], metadata["Version"]) == named, f"{file}: it is not what it is called")
    for field, wanted in {
        "Name": project["name"],
        "Summary": project["description"],
        "Requires-Python": project["requires-python"],
        "License-Expression": project["license"],
        "License-File": "LICENSE",
        "Description-Content-Type": "text/markdown",
    }.items():
        require(metadata[field] == wanted, f"{file}: {field} is {metadata[field]!r}, not {wanted!r}")
    require(metadata.get_payload() == (ROOT / "README.md").read_text(), f"{file}: its description is not the README")
    needed = {str(one) for one in requirements(metadata)}
    require(needed == {str(Requirement(text)) for text in project["dependencies"]}, f"{file} needs {sorted(needed)}")
    extras = set(metadata.get_all("Provides-Extra", []))
    require(extras == set(project["optional-dependencies"]), f"{file}: extras are {sorted(extras)}")


def _check_record(content: dict[str, bytes], record: str, file: str) -> None:
    listed = {name: (digest, size) for name, digest, size in csv.reader(content[record].decode().splitlines())}
    _same(set(listed), set(content), f"{file}, RECORD")
    for name, data in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        require(name == record or listed[name] == (f"sha256={digest}", str(len(data))), f"{file}: {name} differs")


def _same(found: set[str], wanted: set[str], where: str) -> None:
    require(not wanted - found, f"{where} lacks {', '.join(sorted(wanted - found))}")
    require(not found - wanted, f"{where} should not have {', '.join(sorted(found - wanted))}")


def _known_to_git() -> set[str] | None:
    """Every file that is committed or about to be; None in a folder that is not a repository."""
    if not (ROOT / ".git").exists():
        return None
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return {name for name in names if name and (ROOT / name).exists()}
