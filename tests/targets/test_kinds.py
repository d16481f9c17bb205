"""Every kind of target that settings can name exists."""

from __future__ import annotations

from importlib import import_module

import pytest

from wakeful.settings import TARGET_KINDS


@pytest.mark.parametrize("kind", TARGET_KINDS)
def test_a_kind_leads_to_a_target(kind: str) -> None:
    module, _, name = TARGET_KINDS[kind].place.partition(":")
    assert callable(getattr(import_module(module), name).deliver)
