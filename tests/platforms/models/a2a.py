"""An A2A agent that counts the turns of each context: `python a2a.py PORT`."""

from __future__ import annotations

import asyncio
import sys

import httpx
import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part, Task, TaskState, TaskStatus
from starlette.applications import Starlette

port = int(sys.argv[1])
turns: dict[str, int] = {}


class Counting(AgentExecutor):
    async def execute(self, context, queue) -> None:
        said = context.get_user_input().splitlines()[0]
        turn = turns[context.context_id] = turns.get(context.context_id, 0) + 1
        status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
        task = Task(id=context.task_id, context_id=context.context_id, status=status, history=[context.message])
        await queue.enqueue_event(task)
        updater = TaskUpdater(queue, context.task_id, context.context_id)
        await updater.start_work()
        if said == "fail":
            await updater.failed(updater.new_agent_message([Part(text="no such page")]))
            return
        if said == "slow":
            await asyncio.sleep(6)
        await updater.add_artifact([Part(text=f"turn {turn}: {said}")])
        await updater.complete()

    async def cancel(self, context, queue) -> None:
        raise NotImplementedError


card = AgentCard(
    name="counting",
    description="counts turns",
    version="1",
    supported_interfaces=[
        AgentInterface(url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version="1.0")
    ],
    capabilities=AgentCapabilities(push_notifications=True),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[AgentSkill(id="count", name="count", description="counts", tags=["test"])],
)
configs = InMemoryPushNotificationConfigStore()
handler = DefaultRequestHandler(
    agent_executor=Counting(),
    task_store=InMemoryTaskStore(),
    agent_card=card,
    push_config_store=configs,
    push_sender=BasePushNotificationSender(httpx.AsyncClient(), configs),
)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
