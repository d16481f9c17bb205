"""Sign-in with the key of a DID: challenge, Ed25519 signature, token.

A challenge leaves nothing behind: its nonce carries its own end, the name of the server that gave it out, and a MAC
under the database's secret, so any process can check one that another gave out, and asking for many fills nothing. It
is good once, because the token it leads to has an id made from it, and a database takes an id only once: the row that
has to be written anyway is the record. The signed message names the server: a challenge of another one is not valid.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated, Final

from msgspec import Meta, Struct
from starlette.responses import Response
from starlette.routing import Route

from wakeful.clock import Clock
from wakeful.errors import InvalidConfig, InvalidRequest, Unauthorized
from wakeful.http.endpoint import routed
from wakeful.http.operations import Operation, OperationRequest
from wakeful.http.security.auth import Auth, mint
from wakeful.http.security.guard import answer, body
from wakeful.http.security.limits import Newcomers
from wakeful.moments import unix_ms
from wakeful.rules.create import TEXT_LIMIT, check_text
from wakeful.settings import Settings
from wakeful.store import AlarmQuery, Store

NONCE_LASTS: Final = timedelta(seconds=120)
TOKEN_LASTS: Final = timedelta(days=1)
_DID: Final = re.compile(r"(did:matrix:[^:]+:)([0-9a-fA-F]{16})")
_RANDOM: Final = 24
_MAC: Final = 32
_PRIME: Final = 2**255 - 19
_D: Final = -121665 * pow(121666, -1, _PRIME) % _PRIME  # of the curve
_AGAIN: Final = "Ask /v1/auth/challenge for a new one, and use it once and within two minutes."

# For the OpenAPI document only: what is wrong with them is told in better words than a decoder has.
Did = Annotated[str, Meta(extra_json_schema={"pattern": f"^{_DID.pattern}$", "maxLength": TEXT_LIMIT})]
Key = Annotated[str, Meta(extra_json_schema={"pattern": "^[0-9a-fA-F]{64}$"})]
Signature = Annotated[str, Meta(extra_json_schema={"pattern": "^[0-9a-fA-F]{128}$"})]
Verify = Callable[[bytes, bytes, bytes], bool]  # public key, signature, message


class ChallengeBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    did: Did


class Challenge(Struct, frozen=True, kw_only=True):
    """Sign `message` with the DID's key, where `server` is the one you called; `message` begins with it."""

    did: str
    server: str
    nonce: str
    message: str
    expires_in: int


class VerifyBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Key and signature in hexadecimal; the signature is over the challenge's message."""

    did: Did
    public_key: Key
    nonce: str
    signature: Signature


class Verified(Struct, frozen=True, kw_only=True):
    """A token with the scopes read and write, for the alarms of this owner."""

    token: str
    owner: str
    expires_in: int


def routes(auth: Auth, store: Store, settings: Settings, clock: Clock) -> list[Route]:
    """Return the two routes, if the setting `did_auth` is on."""
    if not settings.did_auth:
        return []
    newcomers = Newcomers(settings.did_owners_per_address, settings.did_owners_per_hour)
    server = (settings.public_url or settings.local_url).rstrip("/")
    return routed(Proof(store, clock, _ed25519(), server=server, newcomers=newcomers), OPERATIONS)


def _ed25519() -> Verify:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise InvalidConfig(
            "checking signatures needs the package cryptography",
            field="did_auth",
            fix="pip install 'wakeful[did]', or set did_auth = false.",
        ) from None

    def verify(key: bytes, signature: bytes, message: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True

    return verify


class Proof:
    def __init__(self, store: Store, clock: Clock, verify: Verify, *, server: str, newcomers: Newcomers) -> None:
        self._store = store
        self._clock = clock
        self._verify = verify
        self._server = server
        self._newcomers = newcomers

    async def challenge(self, did: str) -> Challenge:
        _parts(did)
        end = unix_ms(self._clock.now() + NONCE_LASTS).to_bytes(8)
        stem = end + secrets.token_bytes(_RANDOM) + self._server.encode()
        nonce = (
            base64.urlsafe_b64encode(stem + _mac((await self._store.access.report_keys()).current, did, stem))
            .decode()
            .rstrip("=")
        )
        message = _message(self._server, did, nonce)
        return Challenge(did=did, server=self._server, nonce=nonce, message=message, expires_in=_seconds(NONCE_LASTS))

    async def verify(self, request: VerifyBody, address: str = "") -> Verified:
        """Check a signature and return a token. `address`: where the request came from."""
        stem, fingerprint = _parts(request.did)
        key, signature = _bytes(request.public_key, "public_key", 32), _bytes(request.signature, "signature", 64)
        if key.hex()[:16] != fingerprint:
            raise Unauthorized(
                "this key does not belong to this DID",
                field="public_key",
                fix="A DID ends in the first 16 hexadecimal digits of its public key.",
            )
        if has_small_order(key):
            raise Unauthorized(
                "this key is a point of small order, so anyone could sign for it",
                field="public_key",
                fix="Make a key with an Ed25519 library.",
            )
        now = self._clock.now()
        server, used = await self._check_nonce(request.did, request.nonce, now)
        if not self._verify(key, signature, _message(server, request.did, request.nonce).encode()):
            raise Unauthorized(
                "this is not a signature of the challenge's message by this key",
                field="signature",
                fix="Sign the bytes of `message` as they are, with Ed25519.",
            )
        owner = stem + fingerprint
        if not await self._store.find(AlarmQuery(owner=owner, limit=1)):
            self._newcomers.admit(owner, address, now)
        text, token = mint(owner, ("read", "write"), now=now, lasts=TOKEN_LASTS, label="did proof", id=used)
        if not await self._store.access.add_token(token):
            raise _spent()
        return Verified(token=text, owner=owner, expires_in=_seconds(TOKEN_LASTS))

    async def _check_nonce(self, did: str, nonce: str, now: datetime) -> tuple[str, str]:
        """Return which server issued the nonce, and the id of the one token it is valid for."""
        try:
            raw = base64.b64decode(nonce + "=" * (-len(nonce) % 4), b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise _spent() from None
        stem, mac = raw[:-_MAC], raw[-_MAC:]
        keys = await self._store.access.report_keys()  # a change of key between the two steps is nobody's fault
        known = [key for key in (keys.current, *(old.key for old in keys.retired)) if _is_ours(mac, key, did, stem)]
        if not known or unix_ms(now) >= int.from_bytes(stem[:8]):
            raise _spent()
        return stem[8 + _RANDOM :].decode(), hashlib.sha256(raw).hexdigest()[:32]


def _is_ours(mac: bytes, key: bytes, did: str, stem: bytes) -> bool:
    return hmac.compare_digest(mac, _mac(key, did, stem))


def _mac(key: bytes, did: str, stem: bytes) -> bytes:
    return hmac.new(key, b"did-nonce:" + stem + b"\0" + did.encode(), hashlib.sha256).digest()


def _parts(did: str) -> tuple[str, str]:
    """Split a DID into its name and its fingerprint in lower case: one key is one owner, however it is spelled."""
    check_text("did", did, TEXT_LIMIT)
    if (found := _DID.fullmatch(did)) is None:
        raise InvalidRequest(
            f"{did[:100]!r} is not a DID that this server can check",
            field="did",
            fix="Give did:matrix:<user id>:<first 16 hexadecimal digits of the public key>.",
        )
    return found[1], found[2].lower()


def _bytes(text: str, field: str, size: int) -> bytes:
    try:
        found = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        found = b""
    if len(found) != size:
        raise InvalidRequest(f"it is not {size} bytes in hexadecimal", field=field, fix=f"Give {2 * size} digits.")
    return found


def _message(server: str, did: str, nonce: str) -> str:
    return f"wakeful-auth:{server}:{did}:{nonce}"


def has_small_order(key: bytes) -> bool:
    """Return whether eight times this point is zero: such a key would accept anyone's signature.

    Of a point on -x² + y² = 1 + d x² y², order 1 and 2 mean y² = 1, order 4 means y = 0; and order 8 means that twice
    the point has y = 0, which is x² = -y², and the curve then says d y⁴ + 2 y² = 1.
    """
    y = (int.from_bytes(key, "little") & ((1 << 255) - 1)) % _PRIME
    square = y * y % _PRIME
    return y == 0 or square == 1 or (_D * square * square + 2 * square - 1) % _PRIME == 0


def _seconds(length: timedelta) -> int:
    return int(length.total_seconds())


def _spent() -> Unauthorized:
    return Unauthorized(
        "this nonce is unknown, expired or used, or was given for another DID", field="nonce", fix=_AGAIN
    )


async def challenge(proof: Proof, call: OperationRequest) -> Response:
    return answer(await proof.challenge((await body(call.request, ChallengeBody)).did))


async def verify(proof: Proof, call: OperationRequest) -> Response:
    client = call.request.client
    return answer(await proof.verify(await body(call.request, VerifyBody), client.host if client else ""))


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/v1/auth/challenge",
        run=challenge,
        says="Get a challenge to sign with the key of a DID",
        scope="",
        body=ChallengeBody,
        answers={200: Challenge},
    ),
    Operation(
        method="POST",
        path="/v1/auth/verify",
        run=verify,
        says="Exchange a signed challenge for a token",
        scope="",
        body=VerifyBody,
        answers={200: Verified},
        refuses=(401, 429),
    ),
)
