"""Every kind of target that settings can name exists; other packages add theirs."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from wakeful.errors import InvalidConfig
from wakeful.process.application import build_targets
from wakeful.settings import Settings, load
from wakeful.settings.kinds import TARGET_KINDS, target_kind
from wakeful.settings.values import users_of

PACKAGE = '''
from wakeful.model.outcome import Delivered


class Pager:
    """Settings: number"""

    read_as_words = False

    def __init__(self, *, number: str, clock) -> None:
        self.number = number

    async def deliver(self, wake):
        return Delivered(f"paged {self.number}: {wake.message}")

    async def close(self):
        return None


class Unsaid(Pager):
    read_as_words = True
'''
PROGRAM = """
import asyncio, sys
from wakeful.process.application import build_targets
from wakeful.settings import load
from wakeful.testing.targets import a_wake

served = build_targets(load(sys.argv[1]))
print(asyncio.run(served["me"].target.deliver(a_wake("Wake up"))).detail)
"""


@pytest.mark.parametrize("kind", TARGET_KINDS)
def test_a_kind_leads_to_a_target(kind: str) -> None:
    module, _, name = TARGET_KINDS[kind].place.partition(":")
    made = getattr(import_module(module), name)
    assert callable(getattr(made, "func", made).deliver)  # an entry of a list is its class with some settings


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package that is installed in a folder of its own, with an entry point."""
    (tmp_path / "pager_for_wakeful.py").write_text(PACKAGE)
    about = tmp_path / "pager_for_wakeful-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pager-for-wakeful\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[wakeful.targets]\npager = pager_for_wakeful:Pager\n")
    return tmp_path


@pytest.mark.parametrize("kind", ["pager", "pager_for_wakeful:Pager"])
def test_a_kind_of_another_package_is_built_with_its_settings(package: Path, kind: str) -> None:
    config = package / "wakeful.toml"
    config.write_text(f'[targets.me]\nkind = "{kind}"\nnumber = "42"\n')
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(config)],
        env={"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.stdout == "paged 42: Wake up\n", ran.stderr


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("pagerr", "has kind 'pagerr'"),
        ("nowhere_at_all:Pager", "cannot be imported"),
        ("wakeful.targets.webhook:Pager", "cannot be imported"),
        ("wakeful.targets..webhook:Webhook", "has kind"),
    ],
)
def test_a_kind_that_is_not_there_is_refused_and_the_setting_is_named(tmp_path: Path, kind: str, message: str) -> None:
    config = tmp_path / "wakeful.toml"
    config.write_text(f'[targets.me]\nkind = "{kind}"\n')
    with pytest.raises(InvalidConfig, match=message) as refused:
        build_targets(load(config))
    assert refused.value.field == "targets.me.kind"


def test_only_the_operator_may_use_a_kind_that_does_not_say_who_reads_its_wakes(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(package))
    settings = Settings(owner="ada")
    assert users_of(settings, "me", "pager_for_wakeful:Unsaid").owners == {"ada"}
    assert users_of(settings, "me", "pager_for_wakeful:Pager").owners == {"*"}
    assert target_kind("tests.targets.test_kinds:Path").read_as_words  # a class that says nothing
    sys.modules.pop("pager_for_wakeful", None)


def test_secrets_of_any_kind_stay_out_of_logs_by_their_names() -> None:
    given = {"kind": "pager", "api_key": "k-123456", "webhook_secret": "s-123456", "number": "42"}
    assert set(Settings(targets={"me": given}).secrets) - {""} == {"k-123456", "s-123456"}
