from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from talkwire_pipeline.deploy.server import Quota, Quotas
from talkwire_pipeline.errors import ResourceExhaustedError
from talkwire_server.quotas import Ledger

QUOTAS = Quotas(
    default=Quota(live_utterances=2, characters_per_minute=60),
    keys={"rich": Quota(), "silent": Quota(live_utterances=1)},
)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    return Ledger(QUOTAS, clock)


def test_a_key_has_so_many_utterances_and_no_more(ledger: Ledger) -> None:
    for _ in range(2):
        ledger.enter("a")
    with pytest.raises(
        ResourceExhaustedError, match=r"quota of a: 2 utterances are live, live_utterances is 2"
    ) as over:
        ledger.enter("a")
    assert over.value.reason == "QUOTA"
    ledger.enter("b")
    ledger.leave("a")
    ledger.enter("a")


def test_a_named_key_has_its_own_quota_whole(ledger: Ledger) -> None:
    for _ in range(100):
        ledger.enter("rich")
    ledger.check("rich", 10**9)
    ledger.enter("silent")
    ledger.check("silent", 10**9)
    with pytest.raises(ResourceExhaustedError, match="live_utterances is 1"):
        ledger.enter("silent")


def test_characters_come_back_evenly(ledger: Ledger, clock: Clock) -> None:
    ledger.check("a", 60)
    ledger.spend("a", 60)
    with pytest.raises(ResourceExhaustedError, match=r"30 characters are too many now") as over:
        ledger.check("a", 30)
    assert over.value.retry_after_s == pytest.approx(30)
    clock.now_s += over.value.retry_after_s
    ledger.check("a", 30)
    ledger.spend("a", 30)
    with pytest.raises(ResourceExhaustedError):
        ledger.check("a", 1)


def test_more_than_a_whole_minute_never_fits(ledger: Ledger) -> None:
    with pytest.raises(ResourceExhaustedError, match="61 characters, characters_per_minute is 60"):
        ledger.check("a", 61)


def test_callers_without_a_key_share_one(ledger: Ledger) -> None:
    ledger.enter("")
    ledger.enter("")
    with pytest.raises(ResourceExhaustedError, match="quota of callers without a key"):
        ledger.enter("")


class Anything(RuleBasedStateMachine):
    """Nobody ever has more than the quota, whoever else does what."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.ledger = Ledger(QUOTAS, self.clock)
        self.live: dict[str, int] = {}
        self.taken: list[tuple[float, str, int]] = []

    @rule(key=st.sampled_from(["a", "b", ""]))
    def enter(self, key: str) -> None:
        try:
            self.ledger.enter(key)
        except ResourceExhaustedError:
            assert self.live.get(key) == 2
        else:
            self.live[key] = self.live.get(key, 0) + 1

    @precondition(lambda self: any(self.live.values()))
    @rule(dice=st.randoms())
    def leave(self, dice: object) -> None:
        key = dice.choice([key for key, count in self.live.items() if count])  # type: ignore[attr-defined]
        self.ledger.leave(key)
        self.live[key] -= 1

    @rule(key=st.sampled_from(["a", "b", ""]), characters=st.integers(1, 70))
    def speak(self, key: str, characters: int) -> None:
        try:
            self.ledger.check(key, characters)
        except ResourceExhaustedError:
            return
        self.ledger.spend(key, characters)
        self.taken.append((self.clock.now_s, key, characters))

    @rule(seconds=st.floats(0.1, 100))
    def wait(self, seconds: float) -> None:
        self.clock.now_s += seconds

    @invariant()
    def nobody_has_more(self) -> None:
        assert all(count <= 2 for count in self.live.values())
        for key in ("a", "b", ""):
            now = [count for at_s, who, count in self.taken if who == key and at_s > self.clock.now_s - 1e-9]
            assert sum(now) <= 60


TestAnything = Anything.TestCase


def test_who_uses_nothing_is_not_remembered(ledger: Ledger, clock: Clock) -> None:
    for number in range(50):
        ledger.enter(f"key{number}")
        ledger.leave(f"key{number}")
    assert len(ledger) == 0
