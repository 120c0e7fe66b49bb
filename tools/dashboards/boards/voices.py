"""Voices: references, what they cost, and what is refused for them."""

from __future__ import annotations

from tools.dashboards.alerts import VOICES
from tools.dashboards.board import Board, Panel, Row
from tools.dashboards.boards.talker import PREFIX_HITS
from tools.dashboards.catalogue import Catalogue
from tools.dashboards.queries import Query

_METHODS = "ListVoices|GetVoice|CreateVoice|DeleteVoice"
_REASONS = "VOICE.*|CONSENT.*|REFERENCE.*"


def voices(_: Catalogue) -> Board:
    """The dashboard."""
    rows = (
        Row("References in the talker", _references()),
        Row("Voices that are asked for", _asked()),
    )
    text = "References keep one voice over the segments of a stream, and carry the voices that callers bring."
    return Board("voices", VOICES, "talkwire: voices", text, rows)


def _references() -> tuple[Panel, ...]:
    return (
        Panel("References", (Query("talkwire_talker_references", "{{instance}}"),)),
        Panel("Rows that are free", (Query("talkwire_talker_free_reference_rows", "{{instance}}"),)),
        Panel("Prefix cache, hits", (Query(PREFIX_HITS, "all"),), "percentunit"),
        Panel("KV cache in use", (Query("talkwire_talker_kv_used_ratio", "{{instance}}"),), "percentunit"),
    )


def _asked() -> tuple[Panel, ...]:
    rpcs = f'sum by (method, code) (rate(talkwire_rpcs_total{{method=~"{_METHODS}"}}[$__rate_interval]))'
    took = f'sum by (le, method) (rate(talkwire_rpc_seconds_bucket{{method=~"{_METHODS}"}}[$__rate_interval]))'
    refused = f'sum by (reason) (rate(talkwire_refusals_total{{reason=~"{_REASONS}"}}[$__rate_interval]))'
    return (
        Panel("RPCs of voices a second", (Query(rpcs, "{{method}} {{code}}"),), "ops", "stack"),
        Panel("Their duration", (Query(f"histogram_quantile(0.95, {took})", "p95 {{method}}"),), "s"),
        Panel("Refused for their voice", (Query(refused, "{{reason}}"),), "ops", "stack"),
    )
