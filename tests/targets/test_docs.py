"""The pages about targets: every setting is there, and every example that imports what it needs says what it prints."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wakeful.targets.a2a import A2A
from wakeful.targets.command import Command
from wakeful.targets.handler import Handler
from wakeful.targets.langgraph import LangGraph
from wakeful.targets.notify import Notify
from wakeful.targets.openai_session import OpenAISession
from wakeful.targets.router import Router
from wakeful.targets.table import FIELDS, TableTarget
from wakeful.targets.webhook import Webhook

DOCS = Path(__file__).parents[2] / "docs" / "targets"
KINDS = {
    "webhook": Webhook,
    "router": Router,
    "table": TableTarget,
    "handler": Handler,
    "notify": Notify,
    "command": Command,
    "langgraph": LangGraph,
    "a2a": A2A,
    "openai_session": OpenAISession,
}
EXAMPLE = re.compile(r"```python\n(import asyncio.*?)```\n```\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_is_documented_with_its_default(kind: str) -> None:
    page = (DOCS / f"{kind}.md").read_text()
    settings = inspect.signature(KINDS[kind]).parameters.values()
    for setting in settings:
        if setting.name in ("clock", "function", "operator", "public_url"):
            continue
        [line] = [line for line in page.splitlines() if line.startswith(f"| `{setting.name}` |")]
        if isinstance(setting.default, str | int) and not isinstance(setting.default, bool):
            assert f"`{setting.default!r}`".replace("'", '"') in line
    assert f'kind = "{kind}"' in page or kind == "handler"


def test_every_field_a_column_can_hold_is_documented() -> None:
    page = (DOCS / "table.md").read_text()
    assert [field for field in FIELDS if f"`{field}`" not in page] == []


@pytest.mark.parametrize("page", ["webhook", "router", "table", "inbox", "handler", "notify", "command"])
def test_the_example_prints_what_the_page_says(page: str) -> None:
    [(example, printed)] = EXAMPLE.findall((DOCS / f"{page}.md").read_text())
    ran = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout == printed, ran.stderr
