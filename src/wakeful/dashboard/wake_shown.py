"""A wake as its receiver gets it, and as a command to send it again by hand: without any secret. Pure."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import Final

from msgspec import json
from msgspec.structs import replace

from wakeful.alarm import Alarm, Fire, Wake
from wakeful.alarm.wake import ReportTo
from wakeful.targets.webhook import varying

TOKEN: Final = "REPORT-TOKEN"  # these stand for tokens that only the receiver of a wake has
WAKE_TOKEN: Final = "WAKE-TOKEN"


def wake_of(alarm: Alarm, scheduled_for: datetime, *, report_url: str, attempt: int = 1, late_ms: int = 0) -> Wake:
    at = replace(alarm, occurrence_at=scheduled_for)
    return Wake(at, attempt=attempt, late_ms=late_ms, report_url=report_url)


def body_of(wake: Wake) -> bytes:
    """The body byte for byte, but for its tokens."""
    content = wake.content
    return json.encode(replace(content, token=WAKE_TOKEN, report=ReportTo(url=content.report.url, token=TOKEN)))


def curl_of(alarm: Alarm, fire: Fire, *, report_url: str, attempt: int) -> str:
    """The signed request of an attempt as a shell script; who runs it sets URL and SECRET."""
    line = fire.log[attempt - 1]
    late_ms = max(0, int((line.at - fire.scheduled_for).total_seconds() * 1000))
    wake = wake_of(alarm, fire.scheduled_for, report_url=report_url, attempt=attempt, late_ms=late_ms)
    headers = "".join(f"  -H {shlex.quote(f'{name}: {value}')} \\\n" for name, value in varying(wake).items())
    return (
        f"# URL and SECRET are those of the target {_comment(fire.target)}; {TOKEN} and {WAKE_TOKEN} in the body\n"
        "# stand for tokens that only its receiver has.\n"
        f"ID={shlex.quote(fire.id)}\n"
        "TIMESTAMP=$(date +%s)\n"
        f"BODY={shlex.quote(body_of(wake).decode())}\n"
        'case $SECRET in whsec_*) KEY=$(printf %s "${SECRET#whsec_}" | base64 -d | od -An -tx1 | tr -d " \\n");;\n'
        '  *) KEY=$(printf %s "$SECRET" | od -An -tx1 | tr -d " \\n");; esac\n'
        'SIGNATURE=$(printf %s "$ID.$TIMESTAMP.$BODY" |\n'
        '  openssl dgst -sha256 -mac HMAC -macopt "hexkey:$KEY" -binary | base64)\n'
        'curl -X POST "$URL" \\\n'
        f"{headers}"
        '  -H "webhook-id: $ID" -H "idempotency-key: $ID" \\\n'
        '  -H "webhook-timestamp: $TIMESTAMP" -H "webhook-signature: v1,$SIGNATURE" \\\n'
        '  --data-binary "$BODY"\n'
    )


def _comment(text: str) -> str:
    return "".join(sign for sign in text if sign.isprintable())
