"""An agent of LangGraph whose model answers by rule, with threads in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite import SqliteSaver


def answer(messages: Sequence[BaseMessage]) -> AIMessage:
    said = [message.text for message in messages if message.type == "human"]
    if messages[-1].type == "tool":
        assert messages[-1].text.startswith("Set: "), messages[-1]
        return AIMessage("I will.")
    if len(said) == 1:
        arguments = {"when": "in 2 seconds", "wake_message": "Check the grant portal"}
        return AIMessage("", tool_calls=[{"name": "alarm_set", "args": arguments, "id": "c"}])
    assert said[-1].startswith("Check the grant portal\n\n[Wake]\n"), said
    return AIMessage(f"3 new grants. You had said: {said[0]}")


class Rules(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "rules"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=answer(messages))])


model = Rules()


def agent(tools: Sequence[Any]) -> Any:
    threads = SqliteSaver(sqlite3.connect("threads.db", check_same_thread=False))
    return create_agent(model, list(tools), checkpointer=threads)
