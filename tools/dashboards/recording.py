"""The series that Prometheus records: shares of bad events for the burn alerts, and what dashboards ask for often."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from talkwire_pipeline.events import FinishReason
from tools.dashboards.rules import Group, Recording
from tools.dashboards.slo import BURNS, SLOS, WINDOWS, Slo, at

RUNAWAY_ENDS = "|".join(reason for reason in get_args(FinishReason) if reason != "complete")
"""Values of `end` of utterances that the model did not end itself."""
_FINISHED = "|".join(get_args(FinishReason))
_QUANTILES = ("0.5", "0.95", "0.99")


def recording_groups() -> list[Group]:
    """All groups of recording.yml."""
    return [
        *(Group(f"talkwire-slo-{slo.name}", list(_shares(slo))) for slo in SLOS),
        Group("talkwire-slo-budget", [_budget_left(slo) for slo in SLOS], interval="5m"),
        Group("talkwire-speech", list(_speech())),
    ]


def recorded() -> list[str]:
    """Names of all recorded series."""
    return [rule.record for group in recording_groups() for rule in group.rules if isinstance(rule, Recording)]


def _shares(slo: Slo) -> Iterator[Recording]:
    """Rates for the budget, shares for each window, and how many events the long windows have."""
    labels = {"slo": slo.name}
    yield Recording("talkwire:slo_events:rate5m", at(slo.events, "5m"), labels)
    yield Recording("talkwire:slo_bad:rate5m", at(slo.bad, "5m"), labels)
    for window in WINDOWS:
        share = f"{at(slo.bad, window)}\n/\n{at(slo.events, window)}"
        yield Recording(f"talkwire:slo_bad:ratio_rate{window}", share, labels)
    for window in dict.fromkeys(burn.long for burn in BURNS):
        seconds = {"m": 60, "h": 3600, "d": 86400}[window[-1]] * int(window[:-1])
        yield Recording(f"talkwire:slo_events:increase{window}", f"{at(slo.events, window)} * {seconds}", labels)


def _budget_left(slo: Slo) -> Recording:
    """1: nothing is spent; 0: all that 30 days may have; below: more."""
    spent = " / ".join(
        f'sum_over_time(talkwire:slo_{part}:rate5m{{slo="{slo.name}"}}[30d])' for part in ("bad", "events")
    )
    return Recording("talkwire:slo_budget:left30d", f"1 - {spent} / {slo.budget:g}")


def _speech() -> Iterator[Recording]:
    for quantile in _QUANTILES:
        buckets = "sum by (job, le) (rate(talkwire_ttfa_seconds_bucket[5m]))"
        expr = f"histogram_quantile({quantile}, {buckets})"
        yield Recording("talkwire:ttfa_seconds:quantile5m", expr, {"quantile": quantile})
    yield Recording("talkwire:audio_seconds:rate5m", "sum by (job) (rate(talkwire_audio_seconds_total[5m]))")
    ends = {kind: f'talkwire_utterances_total{{end=~"{kind}"}}' for kind in (RUNAWAY_ENDS, _FINISHED)}
    runaways, finished = (f"sum by (job) (increase({series}[1h]))" for series in ends.values())
    yield Recording("talkwire:runaways:increase1h", runaways)
    yield Recording("talkwire:runaways:ratio1h", f"{runaways}\n/\n{finished}")
