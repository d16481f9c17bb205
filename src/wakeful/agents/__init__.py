"""Being woken in three lines: for agents in Python, with any framework or none.

async def on_wake(wake: wakeful.Wake) -> str:
    return await my_agent(wake.prompt, session=wake.conversation_id)

wakeful.agents.serve(on_wake, at="http://127.0.0.1:4747")
"""

from wakeful.agents.receiving import receiver as receiver
from wakeful.agents.serving import serve as serve
from wakeful.agents.tools import tools as tools
