"""An agent of pydantic-ai whose model answers by rule, and its conversations in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel


def answer(messages: list[Any], info: Any) -> ModelResponse:
    parts = [part for message in messages for part in message.parts]
    said = [part.content for part in parts if isinstance(part, UserPromptPart)]
    if isinstance(parts[-1], ToolReturnPart):
        assert parts[-1].content.startswith("Set: "), parts[-1]
        return ModelResponse(parts=[TextPart("I will.")])
    if len(said) == 1:
        arguments = {"when": "in 2 seconds", "wake_message": "Check the grant portal"}
        return ModelResponse(parts=[ToolCallPart("alarm_set", arguments)])
    assert said[-1].startswith("Check the grant portal\n\n[Wake]\n"), said
    return ModelResponse(parts=[TextPart(f"3 new grants. You had said: {said[0]}")])


agent = Agent(FunctionModel(answer))


def load(conversation: str) -> list[Any]:
    file = Path(f"{conversation}.json")
    return ModelMessagesTypeAdapter.validate_json(file.read_bytes()) if file.exists() else []


def save(conversation: str, result: Any) -> None:
    Path(f"{conversation}.json").write_bytes(result.all_messages_json())
