from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
import standardwebhooks

from wakeful.clock import SystemClock
from wakeful.errors import InvalidConfig
from wakeful.targets.signing import BadSignature, key, sign, verify

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()
OTHER = "whsec_" + base64.b64encode(b"another secret, as long.").decode()
NOW = datetime(2030, 1, 1, tzinfo=UTC)
BODY = '{"message":"é"}'.encode()


def headers(*secrets: str, at: datetime = NOW, body: bytes = BODY) -> dict[str, str]:
    timestamp = int(at.timestamp())
    return {
        "Webhook-Id": "a@1",
        "Webhook-Timestamp": str(timestamp),
        "Webhook-Signature": sign([key(secret) for secret in secrets], "a@1", timestamp, body),
    }


def test_the_reference_vector_of_standard_webhooks_comes_out() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    signature = sign([key(secret)], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_reference_library_accepts_our_signatures() -> None:
    now = SystemClock().now()
    for secret in (SECRET, OTHER):
        signed = headers(SECRET, OTHER, at=now)
        assert standardwebhooks.Webhook(secret).verify(BODY, signed) == {"message": "é"}


def test_we_accept_signatures_of_the_reference_library() -> None:
    signature = standardwebhooks.Webhook(SECRET).sign("a@1", NOW, BODY.decode())
    given = headers() | {"Webhook-Signature": signature}
    assert verify(SECRET, given, BODY, now=NOW) == "a@1"


def test_a_plain_text_secret_works_too() -> None:
    assert verify("correct horse", headers("correct horse"), BODY, now=NOW) == "a@1"


def test_either_secret_is_enough_while_they_are_changed() -> None:
    both = headers(OTHER, SECRET)
    assert verify(SECRET, both, BODY, now=NOW) == verify(OTHER, both, BODY, now=NOW)
    assert verify([OTHER, SECRET], headers(SECRET), BODY, now=NOW) == "a@1"


@pytest.mark.parametrize("position", range(len(BODY)))
def test_one_changed_bit_anywhere_is_noticed(position: int) -> None:
    changed = bytearray(BODY)
    changed[position] ^= 1
    with pytest.raises(BadSignature):
        verify(SECRET, headers(SECRET), bytes(changed), now=NOW)


@pytest.mark.parametrize(
    "change",
    [
        {"Webhook-Id": "b@1"},
        {"Webhook-Timestamp": str(int(NOW.timestamp()) + 1)},
        {"Webhook-Timestamp": "9" * 12},
        {"Webhook-Timestamp": "9" * 400},
        {"Webhook-Timestamp": "-1"},
        {"Webhook-Timestamp": "²"},
        {"Webhook-Timestamp": ""},
        {"Webhook-Id": ""},
        {"Webhook-Signature": ""},
        {"Webhook-Signature": "v1"},
        {"Webhook-Signature": "v1,"},
        {"Webhook-Signature": "v1,é " + "v1,AAAA " * 5000},
    ],
)
def test_a_tampered_header_is_noticed(change: dict[str, str]) -> None:
    with pytest.raises(BadSignature):
        verify(SECRET, headers(SECRET) | change, BODY, now=NOW)


@pytest.mark.parametrize("away", [timedelta(seconds=301), timedelta(seconds=-301)])
def test_a_wake_from_another_time_is_refused(away: timedelta) -> None:
    with pytest.raises(BadSignature):
        verify(SECRET, headers(SECRET), BODY, now=NOW + away)
    assert verify(SECRET, headers(SECRET), BODY, now=NOW + away, tolerance=400) == "a@1"


def test_the_wrong_secret_is_refused() -> None:
    with pytest.raises(BadSignature):
        verify(OTHER, headers(SECRET), BODY, now=NOW)


@pytest.mark.parametrize("secret", ["whsec_", "whsec_!!!", "whsec_é"])
def test_a_secret_that_is_no_base64_is_a_wrong_setting(secret: str) -> None:
    with pytest.raises(InvalidConfig):
        key(secret)


@pytest.mark.parametrize("secret", ["", []])
def test_verifying_without_a_secret_is_refused(secret: str | list[str]) -> None:
    with pytest.raises(InvalidConfig):
        verify(secret, headers(""), BODY, now=NOW)
