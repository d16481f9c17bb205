"""An agent of openai-agents whose model answers by rule."""

from __future__ import annotations

import json
from typing import Any

from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from agents import Agent, Model, ModelResponse, Usage, set_tracing_disabled

set_tracing_disabled(True)


def message(text: str) -> ResponseOutputMessage:
    content = [ResponseOutputText(text=text, type="output_text", annotations=[])]
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=content)


def answer(items: list[Any]) -> Any:
    said = [item["content"] for item in items if item.get("role") == "user"]
    if items[-1].get("type") == "function_call_output":
        assert items[-1]["output"].startswith("Set: "), items[-1]
        return message("I will.")
    if len(said) == 1:
        arguments = json.dumps(
            {"when": "in 2 seconds", "wake_message": "Check the grant portal", "key": "", "timezone": ""}
        )
        return ResponseFunctionToolCall(call_id="c", type="function_call", name="alarm_set", arguments=arguments)
    assert said[-1].startswith("Check the grant portal\n\n[Wake]\n"), said
    return message(f"3 new grants. You had said: {said[0]}")


class Rules(Model):
    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        input = kwargs["input"]
        items = [{"role": "user", "content": input}] if isinstance(input, str) else list(input)
        return ModelResponse(output=[answer(items)], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


agent = Agent(name="researcher", model=Rules())
