from __future__ import annotations

import pytest

from wakeful.errors import InvalidConfig
from wakeful.targets.sending.addresses import networks, refusal

PUBLIC = ["8.8.8.8", "1.1.1.1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1", "2606:4700:4700::1111"]
PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "192.0.0.1",
    "192.0.0.9",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "192.88.99.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::127.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "64:ff9b:1::808:808",
    "2002:7f00:1::",
    "2002:c0a8:101::",
    "100:0:0:1::1",
    "100:0:0:1:ffff::1",
    "2001:0:53aa:64c:0:0:f5ff:fffe",
    "fec0::1",
    "fc00::1",
    "fd12::1",
    "100::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
]
METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%lo",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::",
    "::169.254.169.254",
    "2001:0:53aa:64c:0:0:5601:5601",
    "2001:0:a9fe:a9fe:0:0:f7f7:f7f7",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::",
    "64:ff9b:1:2:3:4:a83f:8110",
    "::ffff:a83f:8110",
]
MULTICAST = ["224.0.0.1", "239.1.1.1", "ff02::1", "ff0e::1", "::ffff:224.0.0.1"]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_fine(address: str) -> None:
    assert refusal(address) is None


@pytest.mark.parametrize("address", [*PRIVATE, *METADATA, *MULTICAST])
def test_everything_else_is_refused_by_default(address: str) -> None:
    assert refusal(address) is not None


@pytest.mark.parametrize("address", PRIVATE)
def test_allowing_private_addresses_allows_them(address: str) -> None:
    assert refusal(address, True) is None


@pytest.mark.parametrize("address", [*METADATA, *MULTICAST])
def test_allowing_private_addresses_opens_neither_metadata_services_nor_multicast(address: str) -> None:
    assert refusal(address, True) is not None


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.1.2.3", "10.0.0.0/8"),
        ("::ffff:10.1.2.3", "10.0.0.0/8"),
        ("64:ff9b::a01:203", "10.0.0.0/8"),
        ("::1", "::1"),
        ("127.0.0.1", "127.0.0.1/32"),
        ("169.254.169.254", "169.254.169.254"),
        ("fd12::1", "fd00::/8"),
    ],
)
def test_a_named_network_is_allowed_and_nothing_beside_it(address: str, network: str) -> None:
    assert refusal(address, (network,)) is None
    assert refusal("192.168.7.7", (network,)) is not None
    assert refusal("8.8.8.8", (network,)) is None


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f000001", "2130706433", "1.2.3.4.5", "10.0.0.0/8"])
def test_what_is_not_an_address_is_refused(text: str) -> None:
    assert refusal(text, True) is not None


def test_the_refusal_shows_the_address_inside_the_address() -> None:
    assert "64:ff9b::7f00:1 (127.0.0.1)" in (refusal("64:ff9b::7f00:1") or "")


def test_a_network_that_is_none_is_a_wrong_setting() -> None:
    with pytest.raises(InvalidConfig) as caught:
        networks(["10.0.0.0/99"])
    assert caught.value.field == "allow_private"
