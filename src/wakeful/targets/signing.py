"""Standard Webhooks signatures: `sign` for wakeful, `verify` for receivers of its wakes."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime

from wakeful.errors import InvalidConfig

_PREFIX = "whsec_"


class BadSignature(ValueError):
    """The signature does not match the secret, or the request is too old."""


def key(secret: str) -> bytes:
    """The bytes behind a secret: `whsec_` and base64, or plain text."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    text = secret.removeprefix(_PREFIX)
    try:
        found = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        found = b""
    if not found:
        raise InvalidConfig(
            "what follows whsec_ is not base64",
            field="secret",
            fix="Give base64 after whsec_, or the secret as plain text.",
        )
    return found


def sign(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: one signature for each key, so that receivers can change theirs at any time."""
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return " ".join(
        "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode() for secret in secrets
    )


def verify(
    secret: str | Sequence[str], headers: Mapping[str, str], body: bytes, *, now: datetime, tolerance: float = 300
) -> str:
    """Check a received wake and return its fire id; BadSignature if anything is wrong.

    Give several secrets while they are being changed. `body`: the exact bytes received. A wake can come more than
    once under the same fire id: remember those already seen.
    """
    secrets = [secret] if isinstance(secret, str) else list(secret)
    if not secrets or not all(secrets):
        raise InvalidConfig("it is empty, so anyone could sign with it", field="secret")
    received = {name.lower(): value for name, value in headers.items()}
    message_id, sent = received.get("webhook-id", ""), received.get("webhook-timestamp", "")
    if not message_id or not (sent.isascii() and sent.isdigit() and len(sent) <= 12):
        raise BadSignature("webhook-id or webhook-timestamp is missing or malformed")
    if abs(now.timestamp() - int(sent)) > tolerance:
        raise BadSignature("webhook-timestamp is too far from now")
    expected = sign([key(text) for text in secrets], message_id, int(sent), body).split(" ")
    offered = received.get("webhook-signature", "").split(" ")
    # Every pair is compared, so that the time taken reveals nothing.
    matches = [hmac.compare_digest(ours.encode(), theirs.encode()) for ours in expected for theirs in offered[:10]]
    if not any(matches):
        raise BadSignature("no signature matches")
    return message_id
