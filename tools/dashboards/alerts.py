"""The alerts. Each has a page in docs/runbooks and a series that fires it, and one that does not, in the tests."""

from __future__ import annotations

from collections.abc import Iterator

from tools.dashboards.recording import RUNAWAY_ENDS
from tools.dashboards.rules import Alert, Group
from tools.dashboards.slo import BURNS, MIN_EVENTS, SLOS, Burn, Slo

OVERVIEW, TALKER, CODEC, FRONT_END, VOICES = (
    f"talkwire-{name}" for name in ("overview", "talker", "codec-connector", "front-end", "voices")
)
"""Uids of the dashboards."""
_RUNAWAYS = RUNAWAY_ENDS.replace("|", ", ")
_FULL = '{reason=~"QUEUE_FULL|LIVE_UTTERANCES"}'
_SENT_AWAY = ("talkwire_refusals_total", "talkwire_failures_total")  # at the start, or when the first text was there
OLD_ENOUGH = "on (job, instance) time() - process_start_time_seconds > 7 * 3600"
"""Holds for servers that run for longer than the growth alerts look back."""


def alert_groups() -> list[Group]:
    """All groups of alerts.yml."""
    return [
        Group("talkwire-burn", [_burn(slo, burn) for slo in SLOS for burn in BURNS]),
        Group("talkwire-processes", [*_processes()]),
        Group("talkwire-load", [*_load()]),
        Group("talkwire-memory", [*_memory()]),
    ]


def alerts() -> list[Alert]:
    """All alerts; some share a name."""
    return [rule for group in alert_groups() for rule in group.rules if isinstance(rule, Alert)]


def _burn(slo: Slo, burn: Burn) -> Alert:
    """Both windows spend too fast, and enough has happened to say so."""
    own, limit = f'{{slo="{slo.name}"}}', f"{burn.factor:g} * {slo.budget:g}"
    windows = [f"talkwire:slo_bad:ratio_rate{window}{own} > {limit}" for window in (burn.long, burn.short)]
    enough = f"talkwire:slo_events:increase{burn.long}{own} >= {MIN_EVENTS}"
    return Alert(
        name=slo.alert,
        expr="\nand\n".join([*windows, enough]),
        severity=burn.severity,
        summary=f"{slo.title}: {{{{ $labels.job }}}} burns its error budget at {burn.factor:g}x",
        description=f"{{{{ $value | humanizePercentage }}}} were bad in the last {burn.long}. Promised: {slo.promise}.",
        dashboard=OVERVIEW,
        labels={"burn": f"{burn.factor:g}x", "window": burn.long},
    )


def _processes() -> Iterator[Alert]:
    yield Alert(
        name="TalkwireServerDown",
        expr="up == 0\nand on (job, instance)\nmax_over_time(talkwire_build_info[1d])",
        hold="1m",
        severity="page",
        summary="{{ $labels.instance }} does not answer",
        description="Its metrics page was there within the last day, and cannot be read now.",
        dashboard=OVERVIEW,
    )
    yield Alert(
        name="TalkwireStageDown",
        expr="talkwire_stage_up == 0",
        hold="3m",
        severity="page",
        summary="The {{ $labels.stage }} of {{ $labels.instance }} is down",
        description="The server refuses all utterances until the stage is ready.",
        dashboard=OVERVIEW,
    )
    yield Alert(
        name="TalkwireStageRestarts",
        expr="increase(talkwire_stage_restarts_total[1h]) > 2.5",  # three or more: an increase is extrapolated
        severity="ticket",
        summary="The {{ $labels.stage }} of {{ $labels.instance }} restarts again and again",
        description="About {{ $value | humanize }} restarts in an hour; each one fails what was live.",
        dashboard=OVERVIEW,
    )


def _load() -> Iterator[Alert]:
    yield Alert(
        name="TalkwireQueueFull",
        expr=" or ".join(f"sum by (job, instance, reason) (rate({each}{_FULL}[5m])) > 0" for each in _SENT_AWAY),
        hold="5m",
        severity="ticket",
        summary="{{ $labels.instance }} is full: {{ $labels.reason }}",
        description="{{ $value | humanize }} utterances a second are refused.",
        dashboard=FRONT_END,
    )
    yield Alert(
        name="TalkwireSlowReaders",
        expr='sum by (job, instance) (increase(talkwire_failures_total{reason="SLOW_READER"}[30m])) > 2.5',
        severity="ticket",
        summary="Callers of {{ $labels.instance }} do not take their audio",
        description="About {{ $value | humanize }} utterances failed in half an hour because nobody read them.",
        dashboard=FRONT_END,
    )
    yield Alert(
        name="TalkwireRunaways",
        expr="talkwire:runaways:ratio1h > 0.02\nand\ntalkwire:runaways:increase1h > 4.5",
        hold="10m",
        severity="ticket",
        summary="Utterances of {{ $labels.job }} do not end by themselves",
        description=f"{{{{ $value | humanizePercentage }}}} of the last hour's ended by {_RUNAWAYS}.",
        dashboard=TALKER,
    )
    yield Alert(
        name="TalkwireKvCacheFull",
        expr="talkwire_talker_kv_used_ratio > 0.95",
        hold="10m",
        severity="ticket",
        summary="The KV cache of {{ $labels.instance }} is full",
        description="{{ $value | humanizePercentage }} in use: generations are preempted and computed again.",
        dashboard=TALKER,
    )


def _memory() -> Iterator[Alert]:
    yield _growth("process_resident_memory_bytes", "The server process", {"process": "server"})
    yield _growth("talkwire_stage_resident_memory_bytes", "The {{ $labels.stage }}", {"process": "stage"})
    size = "talkwire_shared_memory_bytes"
    yield Alert(
        name="TalkwireSharedMemoryGrowth",
        expr=f"{size} > min_over_time({size}[6h])\nand {OLD_ENOUGH}",
        hold="15m",
        severity="ticket",
        summary="{{ $labels.instance }} holds more shared memory than it began with",
        description="{{ $value | humanize1024 }}B. The rings are made once, so something is not given back.",
        dashboard=CODEC,
    )


def _growth(size: str, who: str, labels: dict[str, str]) -> Alert:
    """An hour's mean is a fifth and 64 MiB above that of six hours ago."""
    now, then = (f"avg_over_time({size}[1h]{offset})" for offset in ("", " offset 6h"))
    return Alert(
        name="TalkwireMemoryGrowth",
        expr=f"{now} > 1.2 * {then} + 64 * 1024 * 1024\nand {OLD_ENOUGH}\nand on (job, instance) talkwire_build_info",
        hold="30m",
        severity="ticket",
        summary=f"{who} of {{{{ $labels.instance }}}} grows",
        description="{{ $value | humanize1024 }}B resident, a fifth and 64 MiB more than six hours ago.",
        dashboard=OVERVIEW,
        labels=labels,
    )
