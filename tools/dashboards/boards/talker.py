"""The talker: steps, slots, KV cache, and speech that does not end."""

from __future__ import annotations

from tools.dashboards.alerts import TALKER
from tools.dashboards.board import Board, Panel, Row
from tools.dashboards.catalogue import Catalogue
from tools.dashboards.queries import Query, rates, spread
from tools.dashboards.recording import RUNAWAY_ENDS

_FRAME_S = 0.04
"""A row is so much audio: a step that takes longer than that falls behind its players."""

PREFIX_HITS = (
    "sum(rate(talkwire_talker_prefix_hits_total[$__rate_interval]))"
    " / sum(rate(talkwire_talker_prefix_queries_total[$__rate_interval]))"
)
"""Share of prompt ids whose keys and values were there already."""


def talker(catalogue: Catalogue) -> Board:
    """The dashboard."""
    rows = (
        Row("Steps", _steps(catalogue)),
        Row("Slots", _slots(catalogue)),
        Row("KV cache", _cache(catalogue)),
        Row("Ends", _ends(catalogue)),
    )
    return Board("talker", TALKER, "talkwire: talker", "What the talker does, and what waits for it.", rows)


def _steps(catalogue: Catalogue) -> tuple[Panel, ...]:
    duration = spread(catalogue["talkwire_talker_step_seconds"])
    behind = (("green", None), ("red", _FRAME_S))
    return (
        Panel(
            "Duration of a step", duration, "s", text="A row is 40 ms of audio: longer steps fall behind.", steps=behind
        ),
        Panel("Steps a second", (rates(catalogue["talkwire_talker_steps"]),), "ops"),
        Panel("Rows a second", (rates(catalogue["talkwire_talker_rows"]),), "ops"),
        Panel("Segments a second", (rates(catalogue["talkwire_talker_generations"]),), "ops"),
        Panel("Steps that fail a second", (rates(catalogue["talkwire_talker_faults"]),), "ops"),
    )


def _slots(catalogue: Catalogue) -> tuple[Panel, ...]:
    used = (
        Query("talkwire_busy_slots", "{{instance}} given out"),
        Query('talkwire_stage_generations{stage="talker"}', "{{instance}} held"),
        Query('talkwire_capacity{of="talker_slots"}', "{{instance}} there"),
    )
    return (
        Panel("Slots in use", used),
        Panel("Slots in a step", spread(catalogue["talkwire_talker_step_slots"])),
        Panel("Slots that are free", (Query("talkwire_talker_free_slots", "{{instance}}"),)),
        Panel("Wait for a slot", spread(catalogue["talkwire_queue_wait_seconds"]), "s"),
        Panel("Waiting segments", (Query("talkwire_queued_segments", "{{instance}}"),)),
        Panel("Batch that gave way a second", (rates(catalogue["talkwire_preempted_segments"]),), "ops"),
    )


def _cache(catalogue: Catalogue) -> tuple[Panel, ...]:
    usage = Query("talkwire_talker_kv_used_ratio", "{{instance}}")
    hits = Query(PREFIX_HITS, "all")
    full = (("green", None), ("red", 0.95))
    return (
        Panel("KV cache in use", (usage,), "percentunit", text="The runners v1 and v2 have one.", steps=full),
        Panel("Preemptions a second", (rates(catalogue["talkwire_talker_preemptions"]),), "ops"),
        Panel("Prefix cache, hits", (hits,), "percentunit", text="Share of prompt ids that were found there."),
    )


def _ends(catalogue: Catalogue) -> tuple[Panel, ...]:
    runaways = f'sum by (end) (rate(talkwire_utterances_total{{end=~"{RUNAWAY_ENDS}"}}[$__rate_interval]))'
    text = "Utterances that the model did not end itself: a segment at its cap, rows in circles, the longest utterance."
    share = Query("talkwire:runaways:ratio1h", "{{job}}")
    return (
        Panel("Runaways a second", (Query(runaways, "{{end}}"),), "ops", "stack", text),
        Panel("Runaways, share of an hour", (share,), "percentunit", text=text, steps=(("green", None), ("red", 0.02))),
    )
