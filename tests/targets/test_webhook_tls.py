"""A webhook over TLS: it arrives where the certificate is trusted, and nothing is sent where it is not."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

# In a process of its own: which certificates are trusted is decided when the HTTP client is imported.
DELIVERY = """
import asyncio, sys
from wakeful.clock import SystemClock
from wakeful.targets.webhook import Webhook
from wakeful.testing.targets import a_wake

async def deliver():
    target = Webhook(url=sys.argv[1], clock=SystemClock(), allow_private=True, timeout=10)
    for _ in range(2):
        print(await target.deliver(a_wake()))
    await target.close()

loop = sys.argv[2]
if loop == "uvloop":
    import uvloop
    uvloop.run(deliver())
else:
    asyncio.run(deliver())
"""


def certificate(folder: Path) -> tuple[Path, Path]:
    """One that signs itself, for localhost, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file, key_file = folder / "certificate.pem", folder / "key.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return file, key_file


class Receiver:
    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@pytest.fixture
async def receiver(tmp_path: Path) -> AsyncIterator[Receiver]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(tmp_path))
    found = Receiver()
    async with await asyncio.start_server(found.answer, "127.0.0.1", 0, ssl=context) as server:
        found.url = f"https://localhost:{server.sockets[0].getsockname()[1]}/hook"
        yield found


async def outcomes(receiver: Receiver, loop: str, *, trusted: Path | None = None) -> str:
    environment = os.environ | ({"SSL_CERT_FILE": str(trusted)} if trusted else {})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DELIVERY, receiver.url, loop, env=environment, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    return said.decode()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_it_arrives_where_the_certificate_is_trusted(receiver: Receiver, tmp_path: Path, loop: str) -> None:
    said = await outcomes(receiver, loop, trusted=tmp_path / "certificate.pem")
    assert said.count("Delivered(detail='HTTP 200'") == 2
    assert all(head.startswith(b"POST /hook HTTP/1.1\r\nHost: localhost:") for head in receiver.heads)
    assert len(receiver.heads) == 2


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_nothing_is_sent_where_it_is_not(receiver: Receiver, loop: str) -> None:
    said = await outcomes(receiver, loop)
    assert said.count("Failed(error='TLS: ") == 2
    assert receiver.heads == []
