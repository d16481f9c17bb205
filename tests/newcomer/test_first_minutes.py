"""The newcomer's path: the wheel, installed into an empty environment, in an empty folder. And what is published."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email import message_from_string
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.newcomer.first_minutes import WITHIN, first_minutes
from tests.newcomer.packages import ROOT, PackageError, check_sdist, check_wheel, requirements


def built(source: Path, place: Path) -> tuple[Path, Path]:
    """The wheel and the source package of a folder, made without a network."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(place)]
    subprocess.run(command, cwd=source, capture_output=True, timeout=120, check=True)
    [wheel], [sdist] = place.glob("*.whl"), place.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return built(ROOT, tmp_path_factory.mktemp("dist"))


def needed(wheel: Path) -> Iterator[Distribution]:
    """The distributions that pip would fetch for this wheel, as they are installed here."""
    with zipfile.ZipFile(wheel) as content:
        [metadata] = [name for name in content.namelist() if name.endswith(".dist-info/METADATA")]
        wanted = requirements(message_from_string(content.read(metadata).decode()))
    seen: set[str] = set()
    while wanted:
        one = wanted.pop()
        if (name := canonicalize_name(one.name)) in seen:
            continue
        seen.add(name)
        found = distribution(name)
        assert one.specifier.contains(found.version, prereleases=True), f"{one}: {found.version} is installed"
        wanted += requirements(message_from_string(found.read_text("METADATA") or ""))
        yield found


def installed(wheel: Path, place: Path) -> Path:
    """The program in an environment with nothing but the wheel and what it says it needs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], timeout=120, check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install", "--quiet"]
    options = ["--disable-pip-version-check", "--no-deps", "--no-index"]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*pip, *options, str(wheel)], env=environ, timeout=120, check=True)
    [packages] = place.glob("lib/python*/site-packages")
    for one in needed(wheel):
        for top in {file.parts[0] for file in one.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            (packages / top).symlink_to(Path(str(one.locate_file(top))).resolve())
    return place / "bin" / "wakeful"


def test_a_newcomer_sees_an_alarm_fire_within_a_minute(packages: tuple[Path, Path], tmp_path: Path) -> None:
    program = installed(packages[0], tmp_path / "venv")
    (tmp_path / "home").mkdir()
    assert first_minutes(program, tmp_path / "home") < WITHIN


def test_the_packages_hold_all_of_the_program_and_say_what_they_are(packages: tuple[Path, Path]) -> None:
    wheel, sdist = packages
    check_wheel(wheel)
    check_sdist(sdist)


def test_the_source_package_builds_the_same_wheel(packages: tuple[Path, Path], tmp_path: Path) -> None:
    wheel, sdist = packages
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    again, _ = built(source, tmp_path / "dist")
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert {one.filename: one.CRC for one in first.infolist()} == {
            one.filename: one.CRC for one in second.infolist()
        }


@pytest.mark.parametrize("lost", ["wakeful/py.typed", "wakeful/store/sql/alarms.sqlite.sql"])
def test_a_wheel_without_one_of_its_files_is_found_out(packages: tuple[Path, Path], tmp_path: Path, lost: str) -> None:
    spoilt = tmp_path / packages[0].name
    with zipfile.ZipFile(packages[0]) as whole, zipfile.ZipFile(spoilt, "w") as copy:
        for name in whole.namelist():
            if name != lost:
                copy.writestr(name, whole.read(name))
    with pytest.raises(PackageError, match=f"lacks {lost}"):
        check_wheel(spoilt)


def test_a_source_package_with_somebody_s_settings_is_found_out(packages: tuple[Path, Path], tmp_path: Path) -> None:
    spoilt = tmp_path / packages[1].name
    with tarfile.open(packages[1]) as whole, tarfile.open(spoilt, "w:gz") as copy:
        for member in whole.getmembers():
            copy.addfile(member, whole.extractfile(member))
        copy.addfile(tarfile.TarInfo(f"{spoilt.name.removesuffix('.tar.gz')}/src/wakeful/wakeful.toml"), io.BytesIO())
    with pytest.raises(PackageError, match=r"should not have .*wakeful\.toml"):
        check_sdist(spoilt)
