"""Certificates of servers: checked however the address is written, and told as what they are."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from dialect_kit import KINDS
from local_kit import Site, run, running_site, start_error

from subagent_local import Local

pytestmark = pytest.mark.anyio

KEY = "very-secret-key-0123456789"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 127.0.0.1, by nobody but itself; with its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "nobody")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def secure(certificate: Path) -> Iterator[Site]:
    """A server that speaks TLS."""
    with running_site() as site:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        site.server.socket = context.wrap_socket(site.server.socket, server_side=True)
        KINDS["openai"].serve(site)
        yield site


@pytest.mark.parametrize("scheme", ["https", "HTTPS", "Https"])
async def test_a_certificate_that_nobody_vouches_for_is_refused_and_told(secure: Site, scheme: str) -> None:
    url = secure.url.replace("http", scheme)
    error = await start_error(Local(url=url, api_key=KEY))
    assert error.failure.kind == "network"
    assert "is not accepted: self-signed certificate" in error.failure.message
    assert "SSL_CERT_FILE" in error.failure.message
    assert (await Local(url=url).probe()).fix == ""  # it does not help to start a server
    assert not secure.seen


async def test_one_that_the_person_trusts_is_taken(
    secure: Site, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    result, _ = await run(Local(url=secure.url.replace("http", "https"), api_key=KEY))
    assert result.ok


async def test_a_server_without_tls_is_told_as_that(site: Site) -> None:
    error = await start_error(Local(url=site.url.replace("http", "https")))
    assert "there is no TLS with https://" in error.failure.message
    assert "write http://" in error.failure.message


@pytest.mark.parametrize("named", ["missing.pem", "", "text.pem"])
async def test_certificates_that_cannot_be_read_are_a_reason(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.pem").write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / named))
    error = await start_error(Local(url="https://127.0.0.1:1"))
    assert error.failure.kind == "network"
    assert "SSL_CERT_FILE or SSL_CERT_DIR names cannot be used" in error.failure.message
