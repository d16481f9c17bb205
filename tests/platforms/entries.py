"""The platforms, in the order of the table in docs/agents/index.md."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from bench.environments import Kind
from msgspec import Struct

from tests.platforms import hosted
from tests.platforms.pages import woken_and_resumed
from tests.platforms.trial import Trial

PINS: Final = Path(__file__).parent / "pins"


class Platform(Struct, frozen=True):
    name: str
    check: Callable[[Trial], Awaitable[None]]
    kind: Kind | None = "python"  # None: it needs no packages but our own

    @property
    def pins(self) -> Path:
        return PINS / f"{self.name}{'.json' if self.kind == 'node' else '.lock'}"


PLATFORMS: Final = (
    Platform("mcp-inbox", woken_and_resumed, kind=None),
    Platform("openai-agents", woken_and_resumed),
    Platform("pydantic-ai", woken_and_resumed),
    Platform("langgraph", woken_and_resumed),
    Platform("langgraph-server", hosted.langgraph_server),
    Platform("a2a", hosted.a2a),
    Platform("openai-session", hosted.openai_session, kind=None),
)
BY_NAME: Final = {platform.name: platform for platform in PLATFORMS}
