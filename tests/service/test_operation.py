"""What operators see: health, reflection, drain, figures, probes."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from talkwire.v1 import speech_pb2 as pb
from talkwire_pipeline.deploy import load
from talkwire_pipeline.errors import CheckpointError, UnavailableError
from talkwire_pipeline.fakes import FakeStages
from talkwire_server.app import App, Signals, run

TEXT = "Hello there, this is a test."
SERVICE = "talkwire.v1.SpeechService"
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def health(channel: grpc.aio.Channel, service: str) -> int:
    stub = health_pb2_grpc.HealthStub(channel)
    response = await stub.Check(health_pb2.HealthCheckRequest(service=service))
    return int(response.status)


async def get(served: Any, path: str) -> tuple[int, str]:
    def fetch() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{served.app.probes.port}{path}") as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(fetch)


async def figure(served: Any, line: str) -> float:
    _, page = await get(served, "/metrics")
    return next((float(each.rpartition(" ")[2]) for each in page.splitlines() if each.startswith(line + " ")), 0.0)


def reason(status: status_pb2.Status) -> str:
    info = error_details_pb2.ErrorInfo()
    assert any(each.Unpack(info) for each in status.details)
    return info.reason


async def until_health(served: Any, state: int) -> None:
    while await health(served.channel, SERVICE) != state:
        pass


@pytest.mark.parametrize("service", ["", SERVICE])
async def test_health_follows_the_stages(served: Any, service: str) -> None:
    assert await health(served.channel, service) == SERVING
    served.stages.crash("codec")
    await until_health(served, NOT_SERVING)
    assert await health(served.channel, service) == NOT_SERVING
    served.stages.recover("codec")
    await until_health(served, SERVING)
    assert await health(served.channel, service) == SERVING


async def test_reflection_names_the_service(served: Any) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    response = await call.read()
    names = {each.name for each in response.list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health"} <= names
    call.cancel()


async def test_reflection_can_be_off(serve: Callable[..., Awaitable[Any]]) -> None:
    served = await serve("server.reflection=false")
    stub = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")])).read()
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert await health(served.channel, SERVICE) == SERVING


async def test_channelz_is_there_for_who_asks_for_it(serve: Callable[..., Awaitable[Any]], served: Any) -> None:
    asked = await serve("server.channelz=true")
    answer = await channelz_pb2_grpc.ChannelzStub(asked.channel).GetServers(channelz_pb2.GetServersRequest())
    assert len(answer.server) >= 1
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channelz_pb2_grpc.ChannelzStub(served.channel).GetServers(channelz_pb2.GetServersRequest())
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_before_the_stages_are_ready_everything_is_unavailable() -> None:
    app = App(load("demo", environment={}), stages=FakeStages())
    await app.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{app.port}") as channel:
        assert await health(channel, SERVICE) == NOT_SERVING
        call = channel.unary_stream(
            "/talkwire.v1.SpeechService/Synthesize", request_serializer=pb.SynthesizeRequest.SerializeToString
        )(pb.SynthesizeRequest(text=TEXT))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    await app.stop()


async def test_drain_lets_the_live_finish_and_refuses_the_new(served: Any) -> None:
    served.stages.hold()
    caller, idle = served.converse(), served.converse()
    await caller.speak("u", TEXT)
    await caller.until("started")
    await idle.send("x", start=pb.Start())
    await idle.send("x", abort=pb.Abort())
    await idle.until("aborted")
    draining = asyncio.create_task(served.app.drain(asyncio.Event()))
    await until_health(served, NOT_SERVING)
    await caller.send("v", start=pb.Start())
    refused = (await caller.receive()).failed
    assert (refused.code, reason(refused)) == (grpc.StatusCode.UNAVAILABLE.value[0], "DRAINING")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await idle.receive()
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.stub.Synthesize(pb.SynthesizeRequest(text=TEXT)).read()
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    served.stages.release()
    assert (await caller.until("finished"))[-1].utterance_id == "u"
    await draining


@pytest.mark.parametrize("why", ["limit", "hurry"])
async def test_what_outlives_the_drain_is_failed_with_a_status(serve: Callable[..., Awaitable[Any]], why: str) -> None:
    served = await serve(f"server.drain_timeout_s={0.05 if why == 'limit' else 600}")
    served.stages.hold()
    caller = served.converse()
    await caller.speak("u", TEXT)
    await caller.until("started")
    hurry = asyncio.Event()
    if why == "hurry":
        hurry.set()
    await served.app.drain(hurry)
    failed = (await caller.until("failed"))[-1].failed
    assert (failed.code, reason(failed)) == (grpc.StatusCode.UNAVAILABLE.value[0], "DRAINING")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await caller.until("no more")  # our `end` may cross `failed`, and is then answered by an error event
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    await served.idle()


async def test_a_signal_drains_and_ends_the_run() -> None:
    app, signals = App(load("demo", environment={}), stages=FakeStages()), Signals()
    await app.start()
    running = asyncio.create_task(run(app, signals))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{app.port}") as channel:
        while await health(channel, SERVICE) != SERVING:
            pass
        signals.receive()
        await running
    assert not app.pipeline.ready


async def test_a_pipeline_that_cannot_start_ends_the_run_with_its_own_words() -> None:
    stages = FakeStages(start_error=CheckpointError("model.safetensors: key x is missing"))
    app = App(load("demo", environment={}), stages=stages)
    await app.start()
    with pytest.raises(CheckpointError, match="key x is missing"):
        await run(app, Signals())
    await app.stop()


async def test_a_port_in_use_says_so_and_the_way_out(served: Any) -> None:
    second = App(load("demo", environment={}), port=served.app.port, stages=FakeStages())
    with pytest.raises(UnavailableError, match=rf"127.0.0.1:{served.app.port}.*--port") as caught:
        await second.start()
    assert caught.value.reason == "PORT_IN_USE"
    await second.stop()


async def test_probes_tell_life_from_readiness(serve: Callable[..., Awaitable[Any]]) -> None:
    served = await serve("server.metrics_port=0")
    assert (await get(served, "/healthz"))[0] == (await get(served, "/readyz"))[0] == 200
    assert (await get(served, "/nothing"))[0] == 404
    served.stages.crash("talker")
    assert (await get(served, "/healthz"))[0] == 200
    assert (await get(served, "/readyz"))[0] == 503


async def test_figures_follow_what_happened(serve: Callable[..., Awaitable[Any]]) -> None:
    served = await serve("server.metrics_port=0")
    caller = served.converse()
    await caller.speak("u", TEXT)
    samples = (await caller.until("finished"))[-1].finished.statistics.sample_count
    await caller.send("v", start=pb.Start())
    await caller.send("v", abort=pb.Abort())
    await caller.until("aborted")
    await caller.send("w", start=pb.Start(voice="nobody"))
    await caller.until("failed")
    served.stages.hold()
    await caller.send("x", start=pb.Start())
    await caller.send("x", text=TEXT)
    await served.until(lambda: served.stages.live > 0)
    await caller.until("started")
    assert await figure(served, "talkwire_live_utterances") == 1
    assert await figure(served, "talkwire_streams") == 1
    assert await figure(served, 'talkwire_utterances_total{end="complete"}') == 1
    assert await figure(served, 'talkwire_utterances_total{end="aborted"}') == 1
    assert await figure(served, "talkwire_ttfa_seconds_count") == 1
    assert await figure(served, "talkwire_real_time_factor_count") == 1
    assert await figure(served, "talkwire_first_payload_seconds_count") == 1
    assert await figure(served, "talkwire_abort_seconds_count") == 1
    assert await figure(served, 'talkwire_continuity_total{ok="true",threshold_ms="100"}') == 1
    assert await figure(served, "talkwire_utterance_seconds_count") == 1
    assert await figure(served, "talkwire_queue_wait_seconds_count") == 1
    assert await figure(served, 'talkwire_capacity{of="utterances"}') == served.app.deploy.server.max_live_utterances
    assert await figure(served, "talkwire_audio_seconds_total") == pytest.approx(samples / 24_000)
    assert await figure(served, 'talkwire_geometry_frames{part="chunk"}') == 25
    assert await figure(served, 'talkwire_stage_up{stage="talker"}') == 1
    assert await figure(served, "talkwire_queued_segments") == 0
    assert await figure(served, "talkwire_busy_slots") == 1
    assert await figure(served, 'talkwire_stage_generations{stage="talker"}') == 1
    _, page = await get(served, "/metrics")
    assert 'talkwire_refusals_total{reason="' in page
    assert 'profile="demo"' in page
    assert 'model="demo"' in page
    assert 'talkwire_runner_feature{feature="device_codes"} 1.0' in page
    caller.call.cancel()
    await served.idle()
    assert await figure(served, 'talkwire_utterances_total{end="disconnected"}') == 1
    assert await figure(served, "talkwire_live_utterances") == 0
    assert await figure(served, "talkwire_streams") == 0
    assert await figure(served, "talkwire_busy_slots") == 0
    assert await figure(served, 'talkwire_stage_generations{stage="talker"}') == 0
    served.stages.crash("talker")
    assert await figure(served, 'talkwire_stage_up{stage="talker"}') == 0
    assert await figure(served, 'talkwire_stage_restarts_total{stage="talker"}') == 1


async def test_a_stream_of_age_speaks_to_the_end_takes_nothing_new_and_ends(
    serve: Callable[..., Awaitable[Any]],
) -> None:
    served = await serve("server.max_connection_age_s=0.2")
    served.stages.hold()
    caller, idle = served.converse(), served.converse()
    await caller.speak("u", TEXT)
    await idle.send(keepalive=pb.Keepalive())
    await caller.until("started")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await idle.receive()
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    await caller.send("v", start=pb.Start())
    refused = (await caller.receive()).failed
    assert (refused.code, reason(refused)) == (grpc.StatusCode.UNAVAILABLE.value[0], "STREAM_AGE")
    served.stages.release()
    got = await caller.until("finished")
    assert any(each.WhichOneof("event") == "audio" for each in got)
    with pytest.raises(grpc.aio.AioRpcError, match="max_connection_age_s"):
        await caller.receive()


async def test_rpcs_are_counted_by_method_and_code(serve: Callable[..., Awaitable[Any]]) -> None:
    served = await serve("server.metrics_port=0")
    await served.stub.GetServerInfo(pb.GetServerInfoRequest())
    with pytest.raises(grpc.aio.AioRpcError):
        await served.stub.Synthesize(pb.SynthesizeRequest(text="\0")).read()
    with pytest.raises(grpc.aio.AioRpcError):
        await served.stub.Abort(pb.AbortRequest(server_id="0", played_samples=-1))
    caller = served.converse()
    await caller.speak("u", TEXT)
    await caller.until("finished")
    caller.call.cancel()
    await served.idle()
    for method, code in (
        ("GetServerInfo", "OK"),
        ("Synthesize", "INVALID_ARGUMENT"),
        ("Abort", "INVALID_ARGUMENT"),
        ("Converse", "CANCELLED"),
    ):
        assert await figure(served, f'talkwire_rpcs_total{{code="{code}",method="{method}"}}') == 1
        assert await figure(served, f'talkwire_rpc_seconds_count{{method="{method}"}}') == 1


async def test_text_is_not_logged_and_lines_carry_the_server_id(served: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    secret = "Xylophone quartets are forbidden."
    caller = served.converse()
    await caller.speak("u", secret)
    server_id = (await caller.rest())[0].started.server_id
    ours = [record for record in caplog.records if getattr(record, "server_id", "") == server_id]
    assert len(ours) >= 2
    assert not any("Xylophone" in record.getMessage() for record in caplog.records)


async def test_callers_may_ping_every_ten_seconds() -> None:
    from talkwire_server.app import OPTIONS

    options = dict(OPTIONS)
    assert options["grpc.http2.min_ping_interval_without_data_ms"] <= 10_000
    assert options["grpc.keepalive_permit_without_calls"] == 1
    assert options["grpc.so_reuseport"] == 0
