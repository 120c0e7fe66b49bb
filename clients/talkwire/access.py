"""What a client shows of itself, and to whom: TLS, tokens, metadata."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import grpc

from talkwire.errors import FieldViolation, InvalidArgument

Metadata = Sequence[tuple[str, str]]
"""Pairs of key and value that go with every call."""
_NO_PROXY = (("grpc.enable_http_proxy", 0),)
"""A proxy that the environment names would read what goes to loopback in plain text."""


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS to the server; all are PEM files, read when a client is made.

    Attributes:
        ca: certificates that vouch for the server; None: those that gRPC brings along.
        certificate: the client's own, for a server that asks for one.
        key: the key of that.
    """

    ca: str | Path | None = None
    certificate: str | Path | None = None
    key: str | Path | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """What gRPC takes. Raises `InvalidArgument` for a file that is of no use, and for half a pair."""
        if (self.certificate is None) != (self.key is None):
            raise _invalid("tls", "certificate and key go together: give both, or neither")
        self._check()
        return grpc.ssl_channel_credentials(
            _read("tls.ca", self.ca), _read("tls.key", self.key), _read("tls.certificate", self.certificate)
        )

    def _check(self) -> None:
        """gRPC itself would fail later, and say less."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if self.ca is not None:
                context.load_verify_locations(self.ca)
            if self.certificate is not None and self.key is not None:
                context.load_cert_chain(self.certificate, self.key, password="")
        except ssl.SSLError as error:
            why = (error.reason or "no PEM").lower().replace("_", " ")
            raise _invalid("tls", f"the files are no PEM certificates, or no certificate and its key: {why}") from None
        except OSError:
            pass  # the one that cannot be read is named when it is


@dataclass(frozen=True, slots=True)
class Access:
    """A server, and how it is called.

    Attributes:
        target: where it is.
        credentials: of the channel; None: plain text.
        metadata: goes with every call.
        options: of the channel.
    """

    target: str
    credentials: grpc.ChannelCredentials | None
    metadata: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, int], ...] = ()


def access(
    target: str,
    *,
    credentials: grpc.ChannelCredentials | None = None,
    tls: Tls | None = None,
    token: str | None = None,
    metadata: Metadata = (),
) -> Access:
    """How to call a server with these. Raises `InvalidArgument`, also for a token that would travel in plain text."""
    if credentials is not None and tls is not None:
        raise _invalid("tls", "credentials are given, which say all of it: leave out one of the two")
    channel = tls.credentials() if tls is not None else credentials
    if token is None:
        return Access(target, channel, tuple(metadata))
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise _invalid("token", "is empty, or has blanks or signs that no token has")
    if channel is not None:  # gRPC itself then sends it over secure channels alone
        bearer = grpc.access_token_call_credentials(token)
        return Access(target, grpc.composite_channel_credentials(channel, bearer), tuple(metadata))
    if not is_loopback(target):
        raise _invalid("token", f"{target} would get it in plain text: give tls (--tls or --tls-ca), or no token")
    return Access(target, None, (*metadata, ("authorization", f"Bearer {token}")), _NO_PROXY)


def is_loopback(target: str) -> bool:
    """Whether a gRPC target is this machine and nothing else."""
    scheme, _, rest = target.partition(":")
    if scheme in ("unix", "unix-abstract"):
        return True
    if scheme in ("ipv4", "ipv6"):
        return all(map(_is_loopback_host, rest.split(",")))
    if scheme == "dns":
        target = rest.removeprefix("///")  # with a name server of its own nobody knows what localhost is
    return _is_loopback_host(target)


def _is_loopback_host(address: str) -> bool:
    """Of `host`, `host:port` or `[host]:port`."""
    host = address if address.count(":") > 1 else address.partition(":")[0]
    if address.startswith("["):
        host = address[1:].partition("]")[0]
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _read(field: str, path: str | Path | None) -> bytes | None:
    try:
        return None if path is None else Path(path).read_bytes()
    except OSError as error:
        raise _invalid(field, f"{path} cannot be read: {error.strerror}") from None


def _invalid(field: str, fault: str) -> InvalidArgument:
    return InvalidArgument(f"{field}: {fault}", violations=(FieldViolation(field, fault),))
