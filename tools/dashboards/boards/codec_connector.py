"""The codec, and the rings between the processes."""

from __future__ import annotations

from tools.dashboards.alerts import CODEC
from tools.dashboards.board import Board, Panel, Row
from tools.dashboards.catalogue import Catalogue
from tools.dashboards.queries import Query, rates, spread


def codec_connector(catalogue: Catalogue) -> Board:
    """The dashboard."""
    rows = (
        Row("Codec", _codec(catalogue)),
        Row("Edges", _edges(catalogue)),
        Row("Stages", _stages()),
    )
    text = "Decoder calls, and what goes over the edges between the processes."
    return Board("codec_connector", CODEC, "talkwire: codec and connector", text, rows)


def _codec(catalogue: Catalogue) -> tuple[Panel, ...]:
    busy = Query("sum by (instance) (rate(talkwire_codec_call_seconds_sum[$__rate_interval]))", "{{instance}}")
    held = (
        Query('talkwire_stage_generations{stage="codec"}', "{{instance}} held"),
        Query("talkwire_codec_starved_generations", "{{instance}} starved"),
    )
    return (
        Panel("Duration of a call", spread(catalogue["talkwire_codec_call_seconds"]), "s"),
        Panel("Calls a second", (rates(catalogue["talkwire_codec_calls"]),), "ops"),
        Panel("Time in calls", (busy,), "percentunit", text="Share of the time that the decoder works.", steps=_FULL),
        Panel("Windows in a call", spread(catalogue["talkwire_codec_call_windows"])),
        Panel("Frames in a call's windows", spread(catalogue["talkwire_codec_window_frames"])),
        Panel("Calls against those at the start", (Query("talkwire_codec_call_load", "{{instance}}"),)),
        Panel("Frames a second", (rates(catalogue["talkwire_codec_frames"]),), "ops"),
        Panel("Waiting frames", (Query("talkwire_codec_queued_frames", "{{instance}}"),)),
        Panel("Generations held", held),
        Panel("First audio event", spread(catalogue["talkwire_first_payload_seconds"]), "s"),
        Panel("Generations that fail a second", (rates(catalogue["talkwire_codec_faults"]),), "ops"),
    )


_FULL = (("green", None), ("red", 0.9))


def _edges(catalogue: Catalogue) -> tuple[Panel, ...]:
    used = Query("max by (edge) (talkwire_edge_used_ratio)", "{{edge}}")
    most = Query("max by (edge) (talkwire_edge_high_water_ratio)", "{{edge}}")
    wait = " / ".join(
        f"sum by (edge) (rate(talkwire_edge_{what}_total[$__rate_interval]))" for what in ("wait_seconds", "messages")
    )
    return (
        Panel("Messages a second", (rates(catalogue["talkwire_edge_messages"], "edge"),), "ops"),
        Panel("Bytes a second", (rates(catalogue["talkwire_edge_bytes"], "edge"),), "Bps"),
        Panel("On the way", (Query(wait, "{{edge}}"),), "s", text="From sending to receiving, mean of all messages."),
        Panel("Rings in use", (used,), "percentunit", steps=_FULL),
        Panel("Rings in use, the most so far", (most,), "percentunit", steps=_FULL),
        Panel("Stalled", (rates(catalogue["talkwire_edge_stall_seconds"], "edge"),), "percentunit"),
        Panel("Stalls a second", (rates(catalogue["talkwire_edge_stalls"], "edge"),), "ops"),
        Panel("Shared memory", (Query("talkwire_shared_memory_bytes", "{{instance}}"),), "bytes"),
    )


def _stages() -> tuple[Panel, ...]:
    age = Query("talkwire_stage_heartbeat_age_seconds", "{{instance}} {{stage}}")
    cpu = Query("rate(talkwire_stage_cpu_seconds_total[$__rate_interval])", "{{instance}} {{stage}}")
    memory = Query("talkwire_stage_resident_memory_bytes", "{{instance}} {{stage}}")
    return (
        Panel("Answers that are owed, for", (age,), "s", steps=(("green", None), ("red", 3.0))),
        Panel("Processor", (cpu,), "percentunit", text="1 is one core."),
        Panel("Resident memory", (memory,), "bytes"),
    )
