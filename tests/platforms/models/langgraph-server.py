"""A LangGraph server with one graph: `python langgraph-server.py PORT`. No key is set, so it sends no usage data."""

from __future__ import annotations

import sys
import time

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


def answer(state: MessagesState) -> dict:
    turns = [message.content for message in state["messages"] if message.type == "human"]
    said = turns[-1].splitlines()[0]
    if said == "fail":
        raise ValueError("no such page")
    if said == "slow":
        time.sleep(6)
    if said == "ask":
        said = interrupt("which page?")["page"]
    return {"messages": [AIMessage(f"turn {len(turns)}: {said}")]}


graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()

if __name__ == "__main__":
    from langgraph_api.cli import run_server

    run_server(
        host="127.0.0.1",
        port=int(sys.argv[1]),
        graphs={"agent": f"{__file__}:graph"},
        open_browser=False,
        allow_blocking=True,
        webhooks={"url": {"disable_loopback": False, "require_https": False}},  # wakeful is on this machine
        env={"LANGSMITH_TRACING": "false"},
    )
