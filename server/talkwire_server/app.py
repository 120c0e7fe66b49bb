"""The server process: gRPC with health and reflection around one pipeline, from the first byte to the last signal."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from talkwire_pipeline.deploy import Deploy
from talkwire_pipeline.deploy.server import Server
from talkwire_pipeline.errors import DeployError
from talkwire_pipeline.pipeline import Pipeline
from talkwire_pipeline.stages import Stages
from talkwire_server.admission import Admission, draining
from talkwire_server.metrics import Metrics
from talkwire_server.probes import Probes, port_error
from talkwire_server.security.interceptor import Guard
from talkwire_server.security.jwts import WebTokens
from talkwire_server.security.places import Places
from talkwire_server.security.tls import Certificates
from talkwire_server.security.tokens import TokenFile, Verifier
from talkwire_server.servicer import SERVICE, SpeechServicer
from talkwire_server.tracing import NoTracing, OpenTelemetry
from talkwire_server.version import version
from talkwire_server.wire import TRANSPORT_LIMIT_BYTES

log = logging.getLogger(__name__)

STOP_GRACE_S = 1.0
"""How long RPCs that are told to end may take to do so."""
SPARE_STREAMS = 64
"""Calls beside `server.max_streams_per_connection` that gRPC takes from a connection, so that we can answer them."""
OPTIONS = (
    ("grpc.so_reuseport", 0),  # two servers never meet on one port
    ("grpc.max_receive_message_length", TRANSPORT_LIMIT_BYTES),
    ("grpc.max_send_message_length", TRANSPORT_LIMIT_BYTES),
    # Callers may ping every 10 s, speaking or not; a little less is let through, since timers jitter.
    ("grpc.http2.min_ping_interval_without_data_ms", 9_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A caller whose machine is gone sends nothing, not even an end: ask.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)
"""Options of the gRPC server."""


AGE_GRACE_S = 60.0
"""Between the end of a stream's age and that of its connection, where nothing else ends it."""


def _age(limits: Server) -> tuple[tuple[str, int], ...]:
    """Connections are told to go when their streams may have ended by themselves; gRPC's grace ends none of those."""
    if limits.max_connection_age_s is None:
        return ()
    age_s = limits.max_connection_age_s + AGE_GRACE_S
    grace_s = limits.utterance_timeout_s + AGE_GRACE_S
    return (
        ("grpc.max_connection_age_ms", int(age_s * 1e3)),
        ("grpc.max_connection_age_grace_ms", int(grace_s * 1e3)),
    )


def _show_channels(server: grpc.aio.Server) -> None:
    try:
        from grpc_channelz.v1 import channelz
    except ModuleNotFoundError as error:
        raise DeployError(
            "server.channelz: true, and grpcio-channelz is not installed: install talkwire[server,channelz]"
        ) from error
    channelz.add_channelz_servicer(server)


@dataclass
class Signals:
    """What the operator asked for: to leave, and then to leave at once."""

    leave: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)

    def receive(self) -> None:
        """One more SIGTERM or SIGINT."""
        (self.hurry if self.leave.is_set() else self.leave).set()

    @asynccontextmanager
    async def installed(self) -> AsyncIterator[None]:
        """Takes SIGTERM and SIGINT of the process for as long as it lasts."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.receive)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


class App:
    """One server around one pipeline. Raises `DeployError` where a file that the deployment names is of no use.

    Attributes:
        deploy: the deployment.
        pipeline: what speaks.
        admission: who may speak.
        metrics: the figures.
        port: the gRPC port, the bound one after `start`.
        probes: the HTTP port, if there is one.
    """

    def __init__(self, deploy: Deploy, *, host: str = "127.0.0.1", port: int = 0, stages: Stages | None = None) -> None:
        self.deploy = deploy
        self.metrics = Metrics()
        self.pipeline = Pipeline(deploy, stages)
        tracing = OpenTelemetry(version()) if deploy.server.tracing else NoTracing()
        self.admission = Admission(self.pipeline, deploy.server, self.metrics, tracing)
        self.port = port
        self.probes: Probes | None = None
        self._host = host
        self._health = health.aio.HealthServicer()
        self._reported = False
        self._reports: set[asyncio.Task[None]] = set()
        tls = deploy.server.tls
        self._certificates = Certificates(tls, partial(self.metrics.reread, "tls")) if tls.certificate else None
        self._server = self._build()

    def _build(self) -> grpc.aio.Server:
        most = self.deploy.server.max_streams_per_connection + SPARE_STREAMS
        channelz = int(self.deploy.server.channelz)
        own = (("grpc.max_concurrent_streams", most), ("grpc.enable_channelz", channelz))
        options = (*OPTIONS, *own, *_age(self.deploy.server))
        server = grpc.aio.server(options=options, interceptors=[self._guard()])
        server.add_generic_rpc_handlers((SpeechServicer(self.admission, version()).handlers(),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        if self.deploy.server.reflection:
            names = (SERVICE, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, server)
        if self.deploy.server.channelz:
            _show_channels(server)
        return server

    async def start(self) -> None:
        """Binds the ports and answers; utterances are refused with UNAVAILABLE until the pipeline is ready.

        Raises `UnavailableError` where a port cannot be had.
        """
        try:
            self.port = self._open_port(f"{self._host}:{self.port}")
        except RuntimeError as error:
            raise port_error("grpc", self._host, self.port, error) from error
        if self.deploy.server.metrics_port is not None:
            page = self.metrics.wsgi_app()
            self.probes = Probes(self._host, self.deploy.server.metrics_port, page, self.ready)
        self._watch()
        self.pipeline.on_ready_change = self._ready_changed
        await self._report()
        await self._server.start()

    def _guard(self) -> Guard:
        limits, auth = self.deploy.server, self.deploy.server.auth
        told = partial(self.metrics.reread, "tokens")
        verifier: Verifier | None = WebTokens(auth, told) if auth.jwks_file else None
        if auth.tokens_file:
            verifier = TokenFile(auth.tokens_file, told)
        places = Places(limits.max_streams_per_connection, limits.max_streams_per_key)
        return Guard(verifier, auth.open_health, places, self.metrics)

    def _open_port(self, address: str) -> int:
        if self._certificates is None:
            return self._server.add_insecure_port(address)
        return self._server.add_secure_port(address, self._certificates.credentials)

    def _watch(self) -> None:
        self.metrics.describe(self.deploy, version())
        self.metrics.watch(self.pipeline)

    def ready(self) -> bool:
        """Whether an utterance that is opened now would be spoken."""
        return self.pipeline.ready and not self.admission.draining

    async def drain(self, hurry: asyncio.Event) -> None:
        """Refuses new utterances, and lets the live ones finish until the drain limit, or until told to hurry.

        Those that are left then fail with UNAVAILABLE.
        """
        limit_s = self.deploy.server.drain_timeout_s
        log.info("draining for at most %g s", limit_s)
        await self._health.enter_graceful_shutdown()
        self.admission.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await _unless(hurry, self.admission.empty())
        log.info("drained: %d utterances are cut off", self.admission.live)
        self.admission.fail_all(draining())

    async def stop(self) -> None:
        """Ends all RPCs and gives the ports back; what is live is dropped. Idempotent."""
        await self._server.stop(STOP_GRACE_S)
        await self.admission.settle()
        await asyncio.to_thread(self.admission.tracing.close)
        if self.probes is not None:
            await asyncio.to_thread(self.probes.close)
            self.probes = None

    def _ready_changed(self, *_: object) -> None:
        task = asyncio.get_running_loop().create_task(self._report())
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    async def _report(self) -> None:
        """Says in health what is so now; reports that overtake each other all end with the last state."""
        ready = self.ready()
        state = health_pb2.HealthCheckResponse.SERVING if ready else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", SERVICE):
            await self._health.set(name, state)
        if ready != self._reported:
            self._reported = ready
            log.info("serving" if ready else "not serving: a stage is down")


async def serve(
    deploy: Deploy, *, host: str, port: int, announce: Callable[[str], None], stages: Stages | None = None
) -> None:
    """Serves until SIGTERM or SIGINT, then drains; a second signal ends the draining.

    `announce` gets one line with the ports that are bound. Raises `UnavailableError` where a port cannot be had, and
    what the pipeline raises where it cannot start.
    """
    signals = Signals()
    async with signals.installed():
        app = App(deploy, host=host, port=port, stages=stages)
        try:
            await app.start()
            announce(_ports(app, host))
            await run(app, signals)
        finally:
            await app.stop()


async def run(app: App, signals: Signals) -> None:
    """Loads the pipeline of a started app, speaks until told to leave, drains. A signal ends the loading too."""
    async with AsyncExitStack() as stack:
        if await _unless(signals.leave, stack.enter_async_context(app.pipeline)):
            await signals.leave.wait()
            await app.drain(signals.hurry)
        await app.stop()  # while the pipeline is there: what is live is aborted in it


async def _unless(event: asyncio.Event, work: Coroutine[Any, Any, object]) -> bool:
    """Whether `work` was done before the event came; the event cancels it. Raises what `work` raises."""
    task, told = asyncio.create_task(work), asyncio.create_task(event.wait())
    try:
        await asyncio.wait((task, told), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        return task.done()
    finally:
        for each in (task, told):
            each.cancel()
        await asyncio.gather(task, told, return_exceptions=True)


def _ports(app: App, host: str) -> str:
    metrics = f", metrics on {host}:{app.probes.port}" if app.probes is not None else ""
    return f"talkwire-server listens on {host}:{app.port}{metrics}"
