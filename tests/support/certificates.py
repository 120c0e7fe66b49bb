"""Certificates for tests, made by the `openssl` command: a certificate that vouches, and those that it vouches for."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import grpc


class Pair(NamedTuple):
    """Files of a certificate and of its key."""

    certificate: Path
    key: Path

    def replace(self, other: Pair) -> None:
        """Puts another pair in the place of this one, as a renewal does."""
        for ours, theirs in zip(self, other, strict=True):
            fresh = ours.with_suffix(".new")
            fresh.write_bytes(theirs.read_bytes())
            fresh.replace(ours)

    def credentials(self, authority: Authority) -> grpc.ChannelCredentials:
        """Those of a caller that shows this certificate."""
        return grpc.ssl_channel_credentials(
            authority.pair.certificate.read_bytes(), self.key.read_bytes(), self.certificate.read_bytes()
        )


class Authority:
    """Vouches for certificates of loopback; all files lie in `folder`."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self.pair = self._make(name, "-addext", "basicConstraints=critical,CA:TRUE")

    def issue(self, name: str, common_name: str = "") -> Pair:
        """A certificate for 127.0.0.1 and localhost that this one vouches for."""
        ours = ("-CA", str(self.pair.certificate), "-CAkey", str(self.pair.key))
        return self._make(name, *ours, "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", common_name=common_name)

    def credentials(self) -> grpc.ChannelCredentials:
        """Those of a caller that trusts this one and shows nothing."""
        return grpc.ssl_channel_credentials(self.pair.certificate.read_bytes())

    def _make(self, name: str, *options: str, common_name: str = "") -> Pair:
        pair = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        subject = ("-subj", f"/CN={common_name or name}", "-days", "2")
        files = ("-out", str(pair.certificate), "-keyout", str(pair.key))
        command = ("openssl", "req", "-x509", *new_key, *subject, *files, *options)
        subprocess.run(command, check=True, capture_output=True)
        return pair


def tls(pair: Pair, client_ca: Path | None = None) -> list[str]:
    """The settings of a server that has this certificate."""
    settings = [f"server.tls.certificate={pair.certificate}", f"server.tls.key={pair.key}"]
    return [*settings, *([] if client_ca is None else [f"server.tls.client_ca={client_ca}"])]
