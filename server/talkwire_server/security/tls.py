"""Certificates of the gRPC port, which follow their files: every new connection gets what is there then."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc

from talkwire_pipeline.deploy.server import Tls
from talkwire_pipeline.errors import DeployError
from talkwire_server.security.files import Reread

_NAME = "server.tls"


class Certificates:
    """The server's certificate and key, and who vouches for callers. Raises `DeployError` where they are of no use.

    Attributes:
        credentials: for the port. They call back: keep this object for as long as the server lives.
    """

    def __init__(self, tls: Tls, told: Callable[[bool], None] = lambda ok: None) -> None:
        self._tls = tls
        paths = [path for path in (tls.certificate, tls.key, tls.client_ca) if path is not None]
        self._files = Reread(_NAME, paths, self._configuration, told)
        self._given = self._files.get()
        self.credentials = grpc.dynamic_ssl_server_credentials(
            self._given,
            self._fetch,  # type: ignore[arg-type]  # the stubs lack None, which gRPC documents
            require_client_authentication=tls.client_ca is not None,
        )

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """What a new connection shall get; None: the same as the one before. gRPC calls it, from threads of its own."""
        now = self._files.get()
        if now is self._given:
            return None
        self._given = now
        return now

    def _configuration(self, files: list[bytes]) -> grpc.ServerCertificateConfiguration:
        certificate, key, *client_ca = files
        self._check(certificate, key, client_ca)
        return grpc.ssl_server_certificate_configuration([(key, certificate)], client_ca[0] if client_ca else None)

    def _check(self, certificate: bytes, key: bytes, client_ca: list[bytes]) -> None:
        """Says what is wrong; gRPC itself would only say that something is."""
        _hold(f"{_NAME}.certificate: {self._tls.certificate}", certificate, "CERTIFICATE")
        _hold(f"{_NAME}.key: {self._tls.key}", key, "PRIVATE KEY")
        if b"ENCRYPTED" in key:
            raise DeployError(f"{_NAME}.key: {self._tls.key} has a passphrase, which nobody could give: remove it")
        try:
            _load(certificate, key)
        except ssl.SSLError as error:
            pair = f"{self._tls.certificate} and {self._tls.key}"
            raise DeployError(f"{_NAME}: {pair} are no certificate and its own key: {_why(error)}") from error
        for data in client_ca:
            _trust(f"{_NAME}.client_ca: {self._tls.client_ca}", data)


def _hold(where: str, data: bytes, what: str) -> None:
    if f"{what}-----".encode() not in data:
        raise DeployError(f"{where} has no {what} in PEM form")


def _load(certificate: bytes, key: bytes) -> None:
    """Raises `ssl.SSLError` where the two do not belong together. OpenSSL wants files: these are in memory."""
    with _in_memory(certificate) as certificate_path, _in_memory(key) as key_path:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate_path, key_path)


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    with open(os.memfd_create("talkwire-tls", os.MFD_CLOEXEC), "wb") as file:
        file.write(data)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def _trust(where: str, data: bytes) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=data.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        raise DeployError(f"{where} has no CERTIFICATE in PEM form: {error}") from error


def _why(error: ssl.SSLError) -> str:
    return (error.reason or "one of them is broken").lower().replace("_", " ")
