"""Is it all right, and if not, where to look."""

from __future__ import annotations

from tools.dashboards.alerts import OVERVIEW
from tools.dashboards.board import Board, Panel, Row
from tools.dashboards.catalogue import Catalogue
from tools.dashboards.queries import Query, rates, spread
from tools.dashboards.slo import SLOS, TTFA_LIMIT_S, Slo

_GOOD_WHEN_UP = (("red", None), ("green", 1.0))


def overview(catalogue: Catalogue) -> Board:
    """The dashboard that alerts lead to."""
    rows = (
        Row("Promises", (*(_budget(slo) for slo in SLOS), _firing(), *(_burn(slo) for slo in SLOS))),
        Row("Speech", _speech(catalogue)),
        Row("Traffic", _traffic(catalogue)),
        Row("Processes", _processes(catalogue)),
    )
    text = "Promises, speech, traffic and processes of all servers."
    return Board("overview", OVERVIEW, "talkwire: overview", text, rows)


def _budget(slo: Slo) -> Panel:
    query = Query(f'talkwire:slo_budget:left30d{{slo="{slo.name}"}}', "{{job}}")
    steps = (("red", None), ("orange", 0.0), ("green", 0.25))
    text = f"{slo.promise}. Share of 30 days' error budget that is left; below 0 the promise is broken."
    return Panel(f"{slo.title}: budget left", (query,), "percentunit", "stat", text, 6, steps)


def _firing() -> Panel:
    query = Query(
        'sum by (alertname) (ALERTS{alertname=~"Talkwire.*",alertstate="firing"}) or vector(0)', "{{alertname}}"
    )
    steps = (("green", None), ("red", 1.0))
    return Panel("Alerts", (query,), "short", "stat", "Alerts that fire now; 0: none.", 6, steps)


def _burn(slo: Slo) -> Panel:
    """1 spends the budget in 30 days."""
    queries = tuple(
        Query(f'talkwire:slo_bad:ratio_rate{window}{{slo="{slo.name}"}} / {slo.budget:g}', window)
        for window in ("5m", "1h", "6h")
    )
    text = (
        "How fast the error budget is spent, by window: 1 spends it in 30 days; 14.4 over an hour and 6 over six page."
    )
    return Panel(f"{slo.title}: burn", queries, text=text, steps=(("green", None), ("orange", 6.0), ("red", 14.4)))


def _speech(catalogue: Catalogue) -> tuple[Panel, ...]:
    ttfa = catalogue["talkwire_ttfa_seconds"]
    buckets = Query("sum by (le) (increase(talkwire_ttfa_seconds_bucket[$__rate_interval]))", "{{le}}")
    limit = (("green", None), ("red", float(TTFA_LIMIT_S)))
    return (
        Panel("First audio", spread(ttfa), "s", steps=limit),
        Panel("First audio, all of it", (buckets,), "s", "heat"),
        Panel(
            "Real-time factor", spread(catalogue["talkwire_real_time_factor"]), steps=(("green", None), ("red", 1.0))
        ),
        Panel("Audio a second", (rates(catalogue["talkwire_audio_seconds"]),), "s"),
        Panel("Longest gap of an utterance", spread(catalogue["talkwire_chunk_gap_seconds"]), "s"),
        Panel("Duration of an utterance", spread(catalogue["talkwire_utterance_seconds"]), "s"),
        Panel("Players that are dry", (rates(catalogue["talkwire_underrun_seconds"]),), text="Mean number of them."),
        Panel("Characters a second", (rates(catalogue["talkwire_characters"]),)),
    )


def _traffic(catalogue: Catalogue) -> tuple[Panel, ...]:
    live = (
        Query("sum(talkwire_live_utterances)", "live"),
        Query('sum(talkwire_capacity{of="utterances"})', "allowed"),
        Query("sum(talkwire_streams)", "streams"),
    )
    return (
        Panel("Live utterances", live),
        Panel("Ends a second", (rates(catalogue["talkwire_utterances"], "end"),), "ops", "stack"),
        Panel("Refusals a second", (rates(catalogue["talkwire_refusals"], "reason"),), "ops", "stack"),
        Panel("Failures a second", (rates(catalogue["talkwire_failures"], "reason"),), "ops", "stack"),
        Panel("Waiting segments", (Query("talkwire_queued_segments", "{{instance}}"),)),
        Panel("Slots in use", (Query("talkwire_busy_slots", "{{instance}}"),)),
    )


def _processes(catalogue: Catalogue) -> tuple[Panel, ...]:
    up = Query("min by (instance, stage) (talkwire_stage_up)", "{{instance}} {{stage}}")
    restarts = Query("increase(talkwire_stage_restarts_total[$__rate_interval])", "{{instance}} {{stage}}")
    memory = (
        Query("process_resident_memory_bytes", "{{instance}} server"),
        Query("talkwire_stage_resident_memory_bytes", "{{instance}} {{stage}}"),
    )
    cpu = (
        Query("rate(process_cpu_seconds_total[$__rate_interval])", "{{instance}} server"),
        Query("rate(talkwire_stage_cpu_seconds_total[$__rate_interval])", "{{instance}} {{stage}}"),
    )
    return (
        Panel("Stages", (up,), look="states", width=24, steps=_GOOD_WHEN_UP),
        Panel("Restarts", (restarts,)),
        Panel("Resident memory", memory, "bytes"),
        Panel("Processor", cpu, "percentunit", text="1 is one core."),
        Panel("What runs", (Query("talkwire_build_info"),), look="table", width=24),
    )
