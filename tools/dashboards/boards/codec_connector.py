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
    calls = Query("sum(rate(talkwire_codec_decode_seconds_count[$__rate_interval]))", "all")
    load = Query("sum by (instance) (rate(talkwire_codec_decode_seconds_sum[$__rate_interval]))", "{{instance}}")
    return (
        Panel("Duration of a call", spread(catalogue["talkwire_codec_decode_seconds"]), "s"),
        Panel("Calls a second", (calls,), "ops"),
        Panel("Time in calls", (load,), "percentunit", text="Share of the time that the decoder works.", steps=_FULL),
        Panel("Windows in a call", spread(catalogue["talkwire_codec_batch_windows"])),
        Panel("Generations held", (Query('talkwire_stage_generations{stage="codec"}', "{{instance}}"),)),
        Panel("First audio event", spread(catalogue["talkwire_first_payload_seconds"]), "s"),
    )


_FULL = (("green", None), ("red", 0.9))


def _edges(catalogue: Catalogue) -> tuple[Panel, ...]:
    used = Query("max by (edge) (talkwire_edge_occupancy_ratio)", "{{edge}}")
    return (
        Panel("Messages a second", (rates(catalogue["talkwire_edge_messages"], "edge"),), "ops"),
        Panel("Bytes a second", (rates(catalogue["talkwire_edge_bytes"], "edge"),), "Bps"),
        Panel("Fullest ring", (used,), "percentunit", steps=_FULL),
        Panel("Stalled", (rates(catalogue["talkwire_edge_stall_seconds"], "edge"),), "percentunit"),
        Panel("Shared memory", (Query("talkwire_shared_memory_bytes", "{{instance}}"),), "bytes"),
    )


def _stages() -> tuple[Panel, ...]:
    age = Query("talkwire_stage_heartbeat_age_seconds", "{{instance}} {{stage}}")
    text = "The server asks only while work is due: without work the age grows, and means nothing."
    memory = Query("talkwire_stage_resident_memory_bytes", "{{instance}} {{stage}}")
    return (
        Panel("Last sign of life", (age,), "s", text=text),
        Panel("Resident memory", (memory,), "bytes"),
    )
