"""TLS on both sides: servers at https addresses, whose certificates are checked, and the gateway behind a proxy that ends TLS."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import json
import os
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from forking import FORKS
from gateway_kit import SHOP, Place, eventually, free_port, serving, text_of
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


class Authority(NamedTuple):
    """Who signs certificates."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey
    folder: Path

    @classmethod
    def made(cls, folder: Path, name: str) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        self = cls(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]), key, folder)
        certificate = self._signed(self.name, key, NOW + DAY, x509.BasicConstraints(ca=True, path_length=None))
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return self

    def context(self, name: str, host: str, end: datetime.datetime) -> ssl.SSLContext:
        """What a server at a host shows."""
        key = ec.generate_private_key(ec.SECP256R1())
        try:
            alternative: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            alternative = x509.DNSName(host)
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        certificate = self._signed(subject, key, end, x509.SubjectAlternativeName([alternative]))
        path = self.folder / f"{name}.key"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, end: datetime.datetime, extension: x509.ExtensionType
    ) -> x509.Certificate:
        builder = x509.CertificateBuilder(self.name, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(NOW - 2 * DAY).not_valid_after(end).add_extension(extension, critical=True)
        own, issuer = x509.SubjectKeyIdentifier, x509.AuthorityKeyIdentifier  # without them Python 3.13 trusts none
        builder = builder.add_extension(own.from_public_key(key.public_key()), critical=False)
        builder = builder.add_extension(issuer.from_issuer_public_key(self.key.public_key()), critical=False)
        signs = isinstance(extension, x509.BasicConstraints)
        usage = {"key_cert_sign": signs, "crl_sign": signs, "digital_signature": not signs}
        others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
        none = dict.fromkeys((*others, "encipher_only", "decipher_only"), False)
        builder = builder.add_extension(x509.KeyUsage(**usage, **none), critical=True)
        return builder.sign(self.key, hashes.SHA256())


@asynccontextmanager
async def tls(context: ssl.SSLContext, port: int) -> AsyncIterator[int]:
    """A port at which TLS is ended; what is said goes on to another."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ssl.SSLError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        opened.extend((writer, back))
        await asyncio.gather(copy(reader, back), copy(there, writer))

    opened: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(meet, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in opened:
            writer.transport.abort()
        await asyncio.sleep(0.1)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server that speaks HTTP."""
    port = free_port()
    env = {**os.environ, "SHOP_NOTES": str(tmp_path_factory.mktemp("tls") / "notes")}
    with serving(FORKS.command(SHOP, "near", "--http", str(port)), port, env=env):
        yield port


@pytest.mark.slow
def test_servers_with_certificates_that_are_none_are_refused_in_words(
    place: Place, shop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, unknown = Authority.made(place.folder, "known"), Authority.made(place.folder, "unknown")
    monkeypatch.setenv("SSL_CERT_FILE", str(place.folder / "known.pem"))
    contexts = {
        "sound": known.context("sound", "127.0.0.1", NOW + DAY),
        "strange": unknown.context("strange", "127.0.0.1", NOW + DAY),
        "expired": known.context("expired", "127.0.0.1", NOW - DAY),
        "elsewhere": known.context("elsewhere", "bank.example", NOW + DAY),
    }

    async def work() -> None:
        async with contextlib.AsyncExitStack() as open_:
            ports = {name: await open_.enter_async_context(tls(one, shop)) for name, one in contexts.items()}
            ports["plain"] = shop
            urls = {name: f"https://127.0.0.1:{port}/mcp?key=s3cret" for name, port in ports.items()}
            config = place.write({name: {"type": "http", "url": url} for name, url in urls.items()})
            async with place.client("--config", config) as client:
                assert text_of(await client.call_tool("whoami", {})) == "near"
                told = (("strange", "verify failed"), ("expired", "has expired"), ("elsewhere", "IP address mismatch"))
                for name, words in (*told, ("plain", "SSL")):

                    def is_told(name: str = name, words: str = words) -> bool:
                        return any(f"'{name}'" in line and words in line for line in place.errors().splitlines())

                    assert await eventually(is_told), (name, place.errors())
                assert "s3cret" not in place.errors()

    asyncio.run(work())


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["mcp", pytest.param("gateway", marks=pytest.mark.slow)])
def test_behind_a_proxy_that_ends_tls(place: Place, shop: int, verb: str) -> None:
    known = Authority.made(place.folder, "known")
    port = free_port()
    (place.folder / "tokens.json").write_text(json.dumps({"acme": "acme-token"}))
    config = place.write({"near": {"type": "http", "url": f"http://127.0.0.1:{shop}/mcp"}})
    words = ["--config", config] if verb == "gateway" else []
    command = FORKS.command("-m", "byref.cli", verb, "--db", str(place.folder / "tls.db"), *words)
    command += ["--http", f"127.0.0.1:{port}", "--tokens", str(place.folder / "tokens.json")]

    async def work() -> None:
        context = ssl.create_default_context(cafile=place.folder / "known.pem")
        headers = {"authorization": "Bearer acme-token", "x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.1"}
        async with (
            tls(known.context("sound", "127.0.0.1", NOW + DAY), port) as outside,
            httpx2.AsyncClient(headers=headers, verify=context, timeout=30) as http,
        ):
            url = f"https://127.0.0.1:{outside}/mcp"
            async with Client(streamable_http_client(url, http_client=http), mode="legacy") as client:
                assert (await client.list_tools()).tools
            for name, status in (
                ("origin", 403),
                ("host", 421),
                ("x-forwarded-host", 415),  # nobody looks at it
            ):
                assert (await http.post(url, headers={name: "https://evil.example"})).status_code == status
            # TLS at the port that speaks none, and the other way round.
            with pytest.raises(httpx2.ConnectError):
                await http.post(f"https://127.0.0.1:{port}/mcp")
            with pytest.raises(httpx2.HTTPError):
                await http.post(f"http://127.0.0.1:{outside}/mcp")
            assert (await http.get(url, headers={"accept": "text/event-stream"})).status_code == 400

    with (place.folder / "stderr").open("w") as log, serving(command, port, env=dict(os.environ), log=log):
        asyncio.run(work())
    assert "Traceback" not in place.errors()
