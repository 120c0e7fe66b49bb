"""The `server` section of a deploy file: the front end (docs/deploy.md). Units are in the names."""

from __future__ import annotations

from typing import Annotated

import msgspec

from talkwire_pipeline.deploy.section import Count, FilePath, Seconds, Section, Word


class Tls(Section, frozen=True, kw_only=True):
    """TLS of the gRPC port; unset: plain text. Files are PEM, read again when they change (docs/security.md).

    Attributes:
        certificate: file of the server's certificate, with those that vouch for it behind it.
        key: file of its private key, without a passphrase.
        client_ca: file of the certificates that vouch for callers; set: every caller must show one.
    """

    certificate: FilePath | None = None
    key: FilePath | None = None
    client_ca: FilePath | None = None


class Auth(Section, frozen=True, kw_only=True):
    """Who may call; nothing set: anyone (docs/security.md).

    Attributes:
        tokens_file: lines of `name sha256 [method,method...]`, read again when they change.
        jwks_file: public keys of an issuer of JWTs, in place of `tokens_file`; read again when they change.
        issuer: who must have issued a JWT (`iss`).
        audience: for whom it must be (`aud`).
        open_health: the health service answers without a token.
    """

    tokens_file: FilePath | None = None
    jwks_file: FilePath | None = None
    issuer: Word | None = None
    audience: Word | None = None
    open_health: bool = True


class Quota(Section, frozen=True, kw_only=True):
    """What a key may have; unset: no limit.

    Attributes:
        live_utterances: at the same time.
        characters_per_minute: of text; they come back evenly.
    """

    live_utterances: Count | None = None
    characters_per_minute: Count | None = None


class Quotas(Section, frozen=True, kw_only=True):
    """What callers may have, by the name of their key (docs/security.md).

    Attributes:
        default: of a key that is not named; callers without a key share one.
        keys: of those that are, whole: nothing of `default` applies to them.
    """

    default: Quota = Quota()
    keys: dict[str, Quota] = msgspec.field(default_factory=dict)


class Server(Section, frozen=True, kw_only=True):
    """The front end.

    Attributes:
        max_live_utterances: utterances that may be live at the same time.
        max_utterances_per_stream: the same for one stream.
        max_streams_per_connection: RPCs with a stream of answers that one connection may have open.
        max_streams_per_key: the same for all connections of callers with one key; unset: no limit.
        max_queued_segments: segments that may wait for a slot before new utterances are refused.
        idle_timeout_s: a stream with no live utterance and no event for so long is ended.
        first_audio_timeout_s: limit from the first text to the first audio of interactive utterances whose request has
            none; unset: none. Those that would not keep it are refused.
        utterance_timeout_s: limit from start to end event where the request has none.
        max_message_bytes: a larger request message is refused by us (the transport's own limit is 16 MiB).
        max_buffered_audio_s: audio that may be decoded ahead of what the caller has taken.
        slow_reader_timeout_s: an utterance whose caller takes nothing of what waits for so long fails.
        max_connection_age_s: streams take no new utterances after so long and end with their last one, so that callers
            spread over servers anew; a connection is told to go a little later. Unset: never.
        drain_timeout_s: how long live utterances may still run after SIGTERM.
        metrics_port: HTTP port of `/metrics`; 0: any free one; unset: none.
        tracing: a span for each utterance, sent by OTLP (docs/operations.md).
        reflection: whether callers may ask for the contract.
        channelz: gRPC's own view of its connections and sockets is served too.
        tls: who can read along, and whose machine may call.
        auth: who may call.
        quotas: what each key may have.
    """

    max_live_utterances: Count = 64
    max_utterances_per_stream: Count = 8
    max_streams_per_connection: Count = 512
    max_streams_per_key: Count | None = None
    max_queued_segments: Count = 256
    idle_timeout_s: Seconds = 60.0
    first_audio_timeout_s: Seconds | None = None
    utterance_timeout_s: Seconds = 600.0
    max_message_bytes: Annotated[int, msgspec.Meta(ge=1024, le=(16 << 20) - 1024)] = 4 << 20
    max_buffered_audio_s: Seconds = 10.0
    slow_reader_timeout_s: Seconds = 60.0
    max_connection_age_s: Seconds | None = None
    drain_timeout_s: Seconds = 20.0
    metrics_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] | None = None
    tracing: bool = False
    reflection: bool = True
    channelz: bool = False
    tls: Tls = Tls()
    auth: Auth = Auth()
    quotas: Quotas = Quotas()
