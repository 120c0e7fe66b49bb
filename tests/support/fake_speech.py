"""A speech service on a real socket that speaks without a model: what it does hangs on the voice that is asked for.

voice ""         240 samples for each word, when the text has ended
voice "missing"  refuses with NOT_FOUND and details
voice "busy"     refuses with RESOURCE_EXHAUSTED and RetryInfo
voice "endless"  a megabyte of audio for each text increment; ends only by abort
voice "deaf"     accepts and never says another word
voice "strange"  answers the start with `error`
voice "picky"    takes letters alone; other text is answered by `error`
voice "broken"   ends the whole RPC with UNAVAILABLE when its text has ended, as long as `breaks` is above 0
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
from google.protobuf import any_pb2, duration_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from talkwire.v1 import speech_pb2 as pb
from talkwire.v1 import speech_pb2_grpc

WORD_SAMPLES = 240
SAMPLE_RATE_HZ = 24_000
ENDLESS_BYTES = 1 << 20
SEED = 4711
"""What is drawn for every utterance."""


def status(code: int, message: str, *details: Any) -> status_pb2.Status:
    packed = []
    for detail in details:
        packed.append(any_pb2.Any())
        packed[-1].Pack(detail)
    return status_pb2.Status(code=code, message=message, details=packed)


MISSING = status(
    code_pb2.NOT_FOUND,
    "voice: there is no 'missing'",
    error_details_pb2.ErrorInfo(reason="VOICE_UNKNOWN", domain="talkwire"),
    error_details_pb2.BadRequest(
        field_violations=[error_details_pb2.BadRequest.FieldViolation(field="voice", description="unknown")]
    ),
)
BUSY = status(
    code_pb2.RESOURCE_EXHAUSTED,
    "the queue is full",
    error_details_pb2.ErrorInfo(reason="QUEUE_FULL", domain="talkwire"),
    error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=1, nanos=500_000_000)),
)
STRANGE = status(code_pb2.INVALID_ARGUMENT, "what is this?")
REFUSALS = {"missing": MISSING, "busy": BUSY}


class FakeSpeech(speech_pb2_grpc.SpeechServiceServicer):
    """Records requests, that an RPC has ended, and whether its handler got to its end."""

    def __init__(self) -> None:
        self.requests: list[pb.ConverseRequest] = []
        self.synthesized: list[pb.SynthesizeRequest] = []
        self.metadata: list[tuple[str, str]] = []
        self.rpc_ended = asyncio.Event()
        self.rpc_completed = False
        self.breaks = 1000
        self.accepts_at_once = True
        self._came = asyncio.Event()

    def text(self) -> str:
        """All text that has come."""
        return "".join(request.text.text for request in self.requests)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Until it holds; looked at with each request."""
        while not condition():
            self._came.clear()
            await self._came.wait()

    async def Converse(self, request_iterator: Any, context: Any) -> AsyncIterator[pb.ConverseResponse]:
        context.add_done_callback(self._on_done)
        self.metadata = [(key, value) for key, value in context.invocation_metadata()]
        talks: dict[str, _Talk] = {}
        if self.accepts_at_once:
            await context.send_initial_metadata(())
        async for request in request_iterator:
            self.requests.append(request)
            self._came.set()
            name = request.utterance_id
            if request.WhichOneof("event") == "start":
                talks[name] = _Talk(request.start)
            if request.HasField("end") and name in talks and talks[name].voice == "broken" and self.breaks:
                self.breaks -= 1
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the stage is down")
            for event in talks[name].answer(request) if name in talks else [{"error": STRANGE}]:
                yield pb.ConverseResponse(utterance_id=name, **event)
        # A cancelled call ends the requests just as a half-close does; only after a half-close can one still write.
        yield pb.ConverseResponse()
        self.rpc_completed = True

    async def Synthesize(self, request: pb.SynthesizeRequest, context: Any) -> AsyncIterator[pb.SynthesizeResponse]:
        context.add_done_callback(self._on_done)
        self.synthesized.append(request)
        if refusal := REFUSALS.get(request.start.voice):
            details = (("grpc-status-details-bin", refusal.SerializeToString()),)
            await context.abort(grpc.StatusCode.NOT_FOUND, refusal.message, details)
        talk = _Talk(request.start)
        events = [*talk.answer(pb.ConverseRequest(start=request.start))]
        events += talk.answer(pb.ConverseRequest(text=pb.TextIncrement(text=request.text)))
        events += talk.answer(pb.ConverseRequest(abort=pb.Abort()) if request.text == "drop me" else END)
        for event in events:
            yield pb.SynthesizeResponse(utterance_id=request.utterance_id, **event)
        self.rpc_completed = True

    async def Abort(self, request: pb.AbortRequest, context: Any) -> pb.AbortResponse:
        if request.server_id != "live":
            return pb.AbortResponse(found=False)
        return pb.AbortResponse(found=True, aborted=pb.Aborted(generated_samples=request.played_samples))

    async def GetServerInfo(self, request: pb.GetServerInfoRequest, context: Any) -> pb.GetServerInfoResponse:
        model = pb.ModelInfo(name="fake", sample_rate_hz=SAMPLE_RATE_HZ)
        return pb.GetServerInfoResponse(
            server_version="9.9",
            model=model,
            voices=["", "missing"],
            deploy_json="{}",
            library_versions={"b": "2", "a": "1"},
            audio_formats=[pb.AudioFormat(encoding=pb.AUDIO_ENCODING_WAV, sample_rate_hz=24_000)],
        )

    def _on_done(self, context: Any) -> None:
        self.rpc_ended.set()


END = pb.ConverseRequest(end=pb.End())


class _Talk:
    """One utterance: requests in, events out, each as keyword of a response."""

    def __init__(self, start: pb.Start) -> None:
        self.voice = start.voice
        self.rate_hz = start.audio_format.sample_rate_hz or SAMPLE_RATE_HZ
        self.encoding = start.audio_format.encoding or pb.AUDIO_ENCODING_PCM_S16LE
        self.text = ""
        self.sequence = 0
        self.over = False

    def answer(self, request: pb.ConverseRequest) -> Iterator[dict[str, Any]]:
        event = request.WhichOneof("event")
        if event == "start" and self.voice in REFUSALS:
            self.over = True
            yield {"failed": REFUSALS[self.voice]}
        elif self.over or (event == "start" and self.voice == "strange"):
            yield {"error": STRANGE}
        elif event == "start":
            yield {
                "started": pb.Started(server_id="live", sample_rate_hz=self.rate_hz, encoding=self.encoding, seed=SEED)
            }
        elif event == "text" and self.voice == "picky" and not request.text.text.isalpha():
            yield {"error": BUSY}
        elif self.voice != "deaf":
            yield from getattr(self, f"on_{event}")(request)

    def on_text(self, request: pb.ConverseRequest) -> Iterator[dict[str, Any]]:
        self.text += request.text.text
        if self.voice == "endless":
            yield self.audio(bytes(ENDLESS_BYTES))

    def on_flush(self, request: pb.ConverseRequest) -> Iterator[dict[str, Any]]:
        yield {"flushed": pb.Flushed(segment_count=1)}

    def on_end(self, request: pb.ConverseRequest) -> Iterator[dict[str, Any]]:
        if self.voice == "endless":
            return
        words = self.text.split()
        if self.encoding == pb.AUDIO_ENCODING_WAV:
            yield self.audio(b"H" * 44)
        for _ in words:
            yield self.audio(b"\1\0" * WORD_SAMPLES)
        end = len(words) * WORD_SAMPLES
        yield {"timing": pb.Timing(spans=[pb.TimedSpan(text_end=len(self.text), end_sample=end)])}
        self.over = True
        yield {
            "finished": pb.Finished(
                reason=pb.FINISH_REASON_COMPLETE,
                statistics=pb.Statistics(sample_count=end, character_count=len(self.text)),
            )
        }

    def on_abort(self, request: pb.ConverseRequest) -> Iterator[dict[str, Any]]:
        self.over = True
        played = request.abort.played_samples if request.abort.HasField("played_samples") else -1
        yield {"aborted": pb.Aborted(unspoken_text=self.text, generated_samples=played)}

    def audio(self, data: bytes) -> dict[str, Any]:
        self.sequence += 1
        return {"audio": pb.Audio(sequence=self.sequence - 1, data=data)}


@asynccontextmanager
async def serve(service: FakeSpeech) -> AsyncIterator[str]:
    """Serves on loopback, with a health service that says SERVING; yields the target."""
    server = grpc.aio.server()
    speech_pb2_grpc.add_SpeechServiceServicer_to_server(service, server)
    probe = health.aio.HealthServicer()
    await probe.set("", health_pb2.HealthCheckResponse.SERVING)
    await probe.set("talkwire.v1.SpeechService", health_pb2.HealthCheckResponse.NOT_SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(probe, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
