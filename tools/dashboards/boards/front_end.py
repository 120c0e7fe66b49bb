"""The front end: RPCs, refusals, queue, aborts, and the server process itself."""

from __future__ import annotations

from tools.dashboards.alerts import FRONT_END
from tools.dashboards.board import Board, Panel, Row
from tools.dashboards.catalogue import Catalogue
from tools.dashboards.queries import Query, rates, spread


def front_end(catalogue: Catalogue) -> Board:
    """The dashboard."""
    rows = (
        Row("RPCs", _rpcs(catalogue)),
        Row("Admission", _admission(catalogue)),
        Row("Callers who leave", _leaving(catalogue)),
        Row("The server process", _process()),
    )
    return Board("front_end", FRONT_END, "talkwire: front end", "What callers ask for, and what they are told.", rows)


def _rpcs(catalogue: Catalogue) -> tuple[Panel, ...]:
    rereads = (Query("sum by (what, ok) (increase(talkwire_rereads_total[$__rate_interval]))", "{{what}} ok={{ok}}"),)
    return (
        Panel("RPCs a second, by method", (rates(catalogue["talkwire_rpcs"], "method"),), "ops", "stack"),
        Panel("RPCs a second, by status", (rates(catalogue["talkwire_rpcs"], "code"),), "ops", "stack"),
        Panel("Duration", spread(catalogue["talkwire_rpc_seconds"], "method"), "s"),
        Panel("Open streams", (Query("talkwire_streams", "{{instance}}"),)),
        Panel("Files of keys and certificates, read again", rereads),
    )


def _admission(catalogue: Catalogue) -> tuple[Panel, ...]:
    pairs = {"utterances": "talkwire_live_utterances", "queued_segments": "talkwire_queued_segments"}
    full = tuple(
        Query(f'{used} / on (job, instance) talkwire_capacity{{of="{of}"}}', f"{{{{instance}}}} {of}")
        for of, used in pairs.items()
    )
    return (
        Panel("Live utterances", (Query("talkwire_live_utterances", "{{instance}}"),)),
        Panel("Share of the allowed", full, "percentunit", steps=(("green", None), ("red", 0.9))),
        Panel("Refusals a second", (rates(catalogue["talkwire_refusals"], "reason"),), "ops", "stack"),
        Panel("Waiting segments", (Query("talkwire_queued_segments", "{{instance}}"),)),
        Panel("Wait for a slot", spread(catalogue["talkwire_queue_wait_seconds"]), "s"),
    )


def _leaving(catalogue: Catalogue) -> tuple[Panel, ...]:
    gone = 'sum by (end) (rate(talkwire_utterances_total{end=~"aborted|disconnected"}[$__rate_interval]))'
    slow = 'sum by (instance) (increase(talkwire_failures_total{reason="SLOW_READER"}[$__range]))'
    return (
        Panel("Aborts and disconnects a second", (Query(gone, "{{end}}"),), "ops"),
        Panel("Abort to its answer", spread(catalogue["talkwire_abort_seconds"]), "s"),
        Panel(
            "Slow readers", (Query(slow, "{{instance}}"),), text="Failed with SLOW_READER in the time that is shown."
        ),
        Panel("Failures a second", (rates(catalogue["talkwire_failures"], "reason"),), "ops", "stack"),
    )


def _process() -> tuple[Panel, ...]:
    cpu = Query("rate(process_cpu_seconds_total[$__rate_interval])", "{{instance}}")
    files = (Query("process_open_fds", "{{instance}} open"), Query("process_max_fds", "{{instance}} allowed"))
    age = Query("time() - process_start_time_seconds", "{{instance}}")
    return (
        Panel("Processor", (cpu,), "percentunit", text="1 is one core; the front end has one thread that counts."),
        Panel("Resident memory", (Query("process_resident_memory_bytes", "{{instance}}"),), "bytes"),
        Panel("Descriptors", files),
        Panel("Up for", (age,), "s", "stat", width=24),
    )
