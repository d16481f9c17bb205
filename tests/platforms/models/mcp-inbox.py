"""An agent whose conversations are files."""

from __future__ import annotations

import json
from pathlib import Path

FIRST = "Remind me in 2 seconds to check the grant portal"


def turn(conversation: str, text: str) -> str:
    file = Path(f"{conversation}.json")
    said = json.loads(file.read_text()) if file.exists() else [FIRST]
    assert text == "Check the grant portal", text
    file.write_text(json.dumps([*said, text]))
    return f"3 new grants. You had said: {said[0]}"
