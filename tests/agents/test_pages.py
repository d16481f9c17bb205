"""What docs/agents/ says of the programs on its pages; `./scripts/agents` runs them."""

from __future__ import annotations

import re

import pytest

from tests.platforms.entries import PLATFORMS, Platform
from tests.platforms.pages import PAGES, lines, programs

SHOWN = [platform for platform in PLATFORMS if (PAGES / f"{platform.name}.md").exists() and programs(platform.name)]


@pytest.mark.parametrize("platform", SHOWN, ids=lambda platform: platform.name)
def test_a_platform_takes_at_most_fifteen_lines_and_the_table_counts_them(platform: Platform) -> None:
    row = re.search(rf"\| .*\({platform.name}\.md\).* \| (\d+) \|", (PAGES / "index.md").read_text())
    assert row is not None
    assert int(row[1]) == lines(platform.name) <= 15


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.name)
def test_a_platform_s_packages_are_pinned_by_hash_and_without_addresses(platform: Platform) -> None:
    if platform.kind == "python":
        pinned = platform.pins.read_text()
        assert "--hash=sha256:" in pinned
        assert "://" not in pinned
