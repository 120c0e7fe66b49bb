"""What is promised, and how much of it may be broken. All numbers of the burn alerts are here."""

from __future__ import annotations

from dataclasses import dataclass

from talkwire_pipeline.errors import InternalError, ResourceExhaustedError, TimedOutError, UnavailableError

TTFA_LIMIT_S = "0.5"
"""First audio must be there by then; one of the buckets of `talkwire_ttfa_seconds`."""
GAP_LIMIT_MS = "100"
"""A longer gap is heard; the `threshold_ms` of `talkwire_continuity_total`."""
OUR_FAULTS = (
    *(error.reason for error in (InternalError, UnavailableError, ResourceExhaustedError, TimedOutError)),
    "LIVE_UTTERANCES",
    "MESSAGE_TOO_LARGE",
)
"""Reasons of failures and refusals that are the server's; all others are the caller's, or a drain."""
MIN_EVENTS = 20
"""With fewer utterances in the long window nobody is called: one bad one would be a large share."""


@dataclass(frozen=True, slots=True)
class Slo:
    """An objective: of `events` at most `1 - objective` may be `bad`.

    Attributes:
        name: value of the label `slo`.
        alert: name of its alerts.
        title: for people.
        promise: what is promised, a sentence.
        objective: the share that must be good.
        events: PromQL of how many there were a second in WINDOW, by job.
        bad: the same of those that were not good; nothing counts as none.
    """

    name: str
    alert: str
    title: str
    promise: str
    objective: float
    events: str
    bad: str

    @property
    def budget(self) -> float:
        """The share that may be bad."""
        return round(1 - self.objective, 6)


@dataclass(frozen=True, slots=True)
class Burn:
    """One speed at which a budget may not be spent, seen in two windows.

    Attributes:
        factor: times the speed that spends the budget in 30 days.
        long: the window that makes it sure.
        short: the window that ends the alert soon after the cause.
        severity: `page` or `ticket`.
    """

    factor: float
    long: str
    short: str
    severity: str


BURNS = (
    Burn(14.4, "1h", "5m", "page"),  # 2 % of 30 days' budget in an hour
    Burn(6, "6h", "30m", "page"),  # 5 % in six hours
    Burn(1, "3d", "6h", "ticket"),  # 10 % in three days
)
"""The speeds that are watched."""
WINDOWS = ("5m", "30m", "1h", "6h", "3d")
"""All windows of `BURNS`."""


def _sum(selector: str) -> str:
    return f"sum by (job) (rate({selector}[WINDOW]))"


def _or_none(part: str, whole: str) -> str:
    """`part`, and 0 where it has no series yet but `whole` has."""
    return f"({part} or 0 * {whole})"


def _ttfa() -> Slo:
    events = _sum("talkwire_ttfa_seconds_count")
    good = _sum(f'talkwire_ttfa_seconds_bucket{{le="{TTFA_LIMIT_S}"}}')
    return Slo(
        name="ttfa",
        alert="TalkwireTtfaBudgetBurn",
        title="First audio",
        promise=f"99 % of utterances have their first audio within {TTFA_LIMIT_S} s of their first text",
        objective=0.99,
        events=events,
        bad=f"({events} - {good})",
    )


def _continuity() -> Slo:
    threshold = f'threshold_ms="{GAP_LIMIT_MS}"'
    events = _sum(f"talkwire_continuity_total{{{threshold}}}")
    return Slo(
        name="continuity",
        alert="TalkwireContinuityBudgetBurn",
        title="Continuity",
        promise=f"99 % of utterances play without a gap of more than {GAP_LIMIT_MS} ms",
        objective=0.99,
        events=events,
        bad=_or_none(_sum(f'talkwire_continuity_total{{ok="false",{threshold}}}'), events),
    )


def _errors() -> Slo:
    ours = f'{{reason=~"{"|".join(OUR_FAULTS)}"}}'
    ended = _sum("talkwire_utterances_total")
    refused = _or_none(_sum(f"talkwire_refusals_total{ours}"), ended)
    failed = _or_none(_sum(f"talkwire_failures_total{ours}"), ended)
    return Slo(
        name="errors",
        alert="TalkwireErrorBudgetBurn",
        title="Errors",
        promise="99.5 % of utterances are neither refused nor failed by a fault of the server",
        objective=0.995,
        events=f"({ended} + {refused})",
        bad=f"({failed} + {refused})",
    )


SLOS = (_ttfa(), _continuity(), _errors())
"""All objectives."""


def at(expression: str, window: str) -> str:
    """An `events` or a `bad` in a window."""
    return expression.replace("WINDOW", window)
