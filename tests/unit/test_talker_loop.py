from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from talkwire_pipeline.delay import EOC, delay
from talkwire_pipeline.geometry import Geometry
from talkwire_pipeline.messages import (
    Abort,
    Begin,
    DropReference,
    End,
    Failed,
    Message,
    Open,
    Peer,
    Ping,
    PutReference,
    Refused,
    Released,
    Rows,
    Stop,
    TalkerDone,
)
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.talker.ids import STOP, IdSpace
from talkwire_pipeline.talker.loop import MAX_FAULTS, TalkerLoop
from talkwire_pipeline.talker.state import TalkerState

AUDIO = 99
IDS = IdSpace(slots=4, text_vocabulary=100, bank_rows=60)
MAX_MODEL_LEN = 64


@dataclass
class Speaking:
    slot: int
    prompt: list[int]
    max_rows: int
    rows: int = 0


def said(end: int, row: int) -> list[int]:
    """What the fake model wants to say: known codes, and the end from row `end` on."""
    return [EOC if row >= end else row, *[(row * 8 + codebook) % 1024 for codebook in range(1, 8)]]


def frames_of(end: int, rows: int) -> np.ndarray:
    """The frames of a generation that was to end at row `end` and has `rows` rows."""
    frames = [[row, *[((row + k) * 8 + k) % 1024 for k in range(1, 8)]] for row in range(min(end, max(rows - 7, 0)))]
    return np.array(frames, dtype=np.int16).reshape(-1, 8)


class FakeRunner:
    """Speaks without a model: the first text id of a prompt says at which row the end is drawn.

    It works `ahead` rows further than it should before it notices that a generation has ended.
    """

    def __init__(self, state: TalkerState, ahead: int = 0) -> None:
        self._state = state
        self._ahead = ahead
        self.speaking: dict[int, Speaking] = {}
        self.prompts: list[list[int]] = []
        self.fails = 0
        self.abort_fails = False
        self.closed = False

    def add(self, slot: int, prompt_ids: Sequence[int], max_rows: int) -> None:
        if self.fails:
            self.fails -= 1
            raise RuntimeError("no memory")
        assert slot not in self.speaking
        assert prompt_ids[-1] % IDS.slots == slot
        self.prompts.append(list(prompt_ids))
        self.speaking[slot] = Speaking(slot, list(prompt_ids), max_rows)

    def abort(self, slot: int) -> None:
        self.speaking.pop(slot, None)
        if self.abort_fails:
            raise RuntimeError("not now")

    def step(self) -> bool:
        if self.fails:
            self.fails -= 1
            raise RuntimeError("device lost")
        if not self.speaking:
            return False
        for _ in range(1 + self._ahead):
            self._sample(list(self.speaking.values()))
        return True

    def _sample(self, batch: list[Speaking]) -> None:
        if not batch:
            return
        codes = torch.tensor([said(one.prompt[0] - IDS.steps, one.rows) for one in batch])
        logits = torch.zeros(len(batch), 8, 1026).scatter_(2, codes.unsqueeze(2), 9.0)
        positions = torch.tensor([len(one.prompt) - 1 + one.rows for one in batch])
        ids = self._state.sample(logits, torch.tensor([one.slot for one in batch]), positions).tolist()
        for one, id_ in zip(batch, ids, strict=True):
            one.rows += 1
            if (id_ == STOP or one.rows >= one.max_rows) and not self._ahead:
                del self.speaking[one.slot]

    def stats(self) -> dict[str, float]:
        return {"kv_used_ratio": 0.5}

    def close(self) -> None:
        self.closed = True


class Talker:
    """A loop with a fake runner, and what it has sent."""

    def __init__(self, ahead: int = 0) -> None:
        self.state = TalkerState(IDS, MAX_MODEL_LEN, torch.device("cpu"))
        self.runner = FakeRunner(self.state, ahead)
        self.to_codec: list[Message] = []
        self.to_server: list[Message] = []
        ticks = count(0, 1_000_000)
        self.loop = TalkerLoop(
            self.state,
            self.runner,
            audio_token=AUDIO,
            max_model_len=MAX_MODEL_LEN,
            to_codec=self.to_codec.append,
            to_server=self.to_server.append,
            now_ns=lambda: next(ticks),
        )

    def open(self, generation: int, end: int = 5, max_rows: int = 30, **fields: object) -> None:
        self.loop.handle(open_message(generation, end, max_rows, **fields))

    def run(self) -> None:
        for _ in range(1000):
            if not self.loop.step():
                return
        pytest.fail("the loop finds no end")

    def rows_of(self, generation: int) -> list[list[int]]:
        batches = [message for message in self.to_codec if isinstance(message, Rows)]
        return [row for batch in batches for row in batch.codes[batch.generations == generation].tolist()]

    def kinds(self) -> list[tuple[str, int]]:
        return [(type(message).__name__, message.generation) for message in self.to_codec]


def open_message(generation: int, end: int = 5, max_rows: int = 30, **fields: object) -> Open:
    values: dict[str, object] = {
        "prompt": np.array([end, 11, 12, AUDIO], dtype=np.int32),
        "sampling": Sampling(temperature=0, top_p=1),
        "max_rows": max_rows,
        "geometry": Geometry(),
        "credit_samples": 24_000,
        "dry_ns": 7,
        "reference_at": 1,
    }
    return Open(generation=generation, **(values | fields))  # type: ignore[arg-type]


def reference(frames: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1024, (frames, 8)).astype(np.int16)


@pytest.mark.parametrize("end", [0, 1, 5])
def test_a_generation_runs_to_its_own_end(end: int) -> None:
    talker = Talker()
    talker.open(7, end)
    talker.run()
    assert talker.rows_of(7) == delay(frames_of(end, end + 7)).tolist()
    assert talker.kinds() == [("Begin", 7), *[("Rows", 0)] * (end + 7), ("End", 7)]
    assert talker.to_codec[0] == Begin(generation=7, geometry=Geometry(), credit_samples=24_000, dry_ns=7, max_rows=30)
    assert talker.to_codec[-1] == End(generation=7, reason="eos")
    (done,) = talker.to_server
    assert isinstance(done, TalkerDone)
    assert (done.generation, done.reason, done.rows) == (7, "eos", end + 7)
    assert np.array_equal(done.codes, frames_of(end, end + 7))


@pytest.mark.parametrize(("rows", "reason"), [(1, "cap"), (7, "cap"), (11, "cap"), (12, "eos"), (13, "eos")])
def test_the_cap_ends_a_generation(rows: int, reason: str) -> None:
    talker = Talker()
    talker.open(1, end=5, max_rows=rows)
    talker.run()
    (done,) = talker.to_server
    assert isinstance(done, TalkerDone)
    assert (done.reason, done.rows) == (reason, min(rows, 12))
    assert np.array_equal(done.codes, frames_of(5, rows))
    assert talker.to_codec[-1] == End(generation=1, reason=reason)  # type: ignore[arg-type]


def test_a_generation_that_goes_in_circles_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("talkwire_pipeline.talker.loop.CHECK_ROWS", 5)
    monkeypatch.setattr("talkwire_pipeline.talker.repeats.REPEATED_ROWS", 10)
    monkeypatch.setattr(f"{__name__}.said", lambda end, row: [7, *range(1, 8)])
    talker = Talker()
    talker.open(1, end=60, max_rows=50)
    talker.run()
    done = talker.to_server[-1]
    assert isinstance(done, TalkerDone)
    assert (done.reason, done.rows) == ("loop", 20)  # 8 rows of the delay pattern, 11 alike, looked at every 5
    assert talker.kinds()[-1] == ("End", 1)
    assert not talker.runner.speaking


def test_all_rows_of_a_step_go_in_one_message() -> None:
    talker = Talker()
    for generation in (1, 2, 3):
        talker.open(generation)
    talker.loop.step()
    assert talker.kinds() == [("Begin", 1), ("Begin", 2), ("Begin", 3), ("Rows", 0)]
    rows = talker.to_codec[-1]
    assert isinstance(rows, Rows)
    assert rows.generations.tolist() == [1, 2, 3]
    assert rows.generations.dtype == np.uint64
    assert rows.codes.dtype == np.int16


@pytest.mark.parametrize("ahead", [1, 3])
def test_a_runner_that_works_ahead_makes_no_row_too_many(ahead: int) -> None:
    talker = Talker(ahead)
    talker.open(1, end=5, max_rows=30)
    talker.open(2, end=20, max_rows=9)
    talker.run()
    assert talker.rows_of(1) == delay(frames_of(5, 12)).tolist()
    assert len(talker.rows_of(2)) == 9
    assert {(done.generation, done.reason) for done in talker.to_server if isinstance(done, TalkerDone)} == {
        (1, "eos"),
        (2, "cap"),
    }


def test_a_reference_stands_in_the_prompt_where_it_was_asked_for() -> None:
    talker = Talker()
    codes = reference(2)
    talker.loop.handle(PutReference(reference=5, codes=codes))
    talker.open(1, end=3, reference=5, reference_at=2)
    (prompt,) = talker.runner.prompts
    shift = IDS.steps
    assert prompt[:2] == [shift + 3, shift + 11]
    assert prompt[11] == shift + 12
    assert prompt[12] % IDS.slots > 0
    rows = talker.state.codes_at(torch.tensor(prompt), torch.arange(len(prompt)))
    assert rows[2:11].tolist() == delay(codes).tolist()
    talker.run()
    assert talker.rows_of(1) == delay(frames_of(3, 10)).tolist()


def test_the_reference_used_longest_ago_makes_room() -> None:
    talker = Talker()
    for number in (1, 2):
        talker.loop.handle(PutReference(reference=number, codes=reference(20, number)))
    talker.open(1, reference=1)  # 27 rows in use, and the most recently used
    talker.run()
    talker.loop.handle(PutReference(reference=3, codes=reference(20, 3)))
    for generation, number in enumerate((1, 2, 3), start=11):
        talker.open(generation, end=0, max_rows=7, reference=number)
    refused = [message for message in talker.to_server if isinstance(message, Refused)]
    assert [(message.generation, message.reason) for message in refused] == [(12, "reference")]
    assert "reference 2 is not held" in refused[0].detail


def test_a_reference_in_use_stays_until_it_is_out_of_use() -> None:
    talker = Talker()
    talker.loop.handle(PutReference(reference=1, codes=reference(20)))
    talker.open(1, reference=1)
    talker.loop.handle(DropReference(reference=1))
    assert talker.state.free_bank_rows == 33
    talker.loop.handle(PutReference(reference=2, codes=reference(30)))  # no room for it
    for generation, number in enumerate((1, 2), start=11):
        talker.open(generation, reference=number)
    assert [type(message) for message in talker.to_server] == [Refused, Refused]
    talker.run()
    assert talker.state.free_bank_rows == 60
    talker.loop.handle(PutReference(reference=2, codes=reference(30)))
    talker.open(21, reference=2)
    talker.loop.handle(Abort(generation=21))
    talker.loop.handle(DropReference(reference=2))
    talker.loop.handle(DropReference(reference=9))
    assert talker.state.free_bank_rows == 60


def test_a_reference_that_is_put_again_is_there_once_and_counts_as_used() -> None:
    talker = Talker()
    for number in (1, 2, 1):
        talker.loop.handle(PutReference(reference=number, codes=reference(20)))
    assert talker.state.free_bank_rows == 6
    talker.loop.handle(PutReference(reference=3, codes=reference(20)))
    for generation, number in enumerate((1, 2, 3), start=1):
        talker.open(generation, reference=number)
    assert [message.generation for message in talker.to_server] == [2]


def test_a_reference_of_no_codes_is_refused_when_it_is_named() -> None:
    talker = Talker()
    talker.loop.handle(PutReference(reference=1, codes=np.full((3, 8), 2000, dtype=np.int16)))
    talker.open(1, reference=1)
    assert [type(message) for message in talker.to_server] == [Refused]


def test_an_open_beyond_the_slots_is_refused() -> None:
    talker = Talker()
    for generation in (1, 2, 3, 4):
        talker.open(generation)
    assert talker.to_server == [Refused(generation=4, reason="full", detail="all 3 slots are taken")]
    talker.run()
    talker.open(5)
    assert talker.loop.stats()["live_generations"] == 1


def test_an_open_that_does_not_fit_is_refused_and_holds_nothing() -> None:
    talker = Talker()
    talker.loop.handle(PutReference(reference=1, codes=reference(20)))
    talker.open(1, max_rows=34, reference=1)
    talker.open(2, max_rows=33, reference=1)
    assert talker.to_server == [
        Refused(generation=1, reason="length", detail="a prompt of 31 ids and 34 rows, of 64 positions")
    ]
    talker.loop.handle(Abort(generation=2))
    talker.loop.handle(DropReference(reference=1))
    assert (talker.state.free_slots, talker.state.free_bank_rows) == (3, 60)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"prompt": np.array([1, 2], dtype=np.int32)}, "prompt"),
        ({"prompt": np.array([], dtype=np.int32)}, "prompt"),
        ({"prompt": np.array([100, AUDIO], dtype=np.int32)}, "prompt"),
        ({"prompt": np.array([-1, AUDIO], dtype=np.int32)}, "prompt"),
        ({"reference_at": 4}, "reference_at"),
        ({"max_rows": 0}, "max_rows"),
    ],
)
def test_an_open_that_no_server_sends_fails_by_itself(fields: dict[str, object], named: str) -> None:
    talker = Talker()
    talker.loop.handle(open_message(1, **fields))  # type: ignore[arg-type]
    (failed,) = talker.to_server
    assert isinstance(failed, Failed)
    assert named in failed.detail
    assert talker.state.free_slots == 3


def test_an_abort_frees_the_slot_before_the_next_step() -> None:
    talker = Talker()
    talker.open(1)
    talker.loop.step()
    talker.loop.handle(Abort(generation=1))
    assert talker.state.free_slots == 3
    assert not talker.runner.speaking
    assert talker.to_codec[-1] == End(generation=1, reason="abort")
    assert talker.to_server == [Released(generation=1)]
    assert not talker.loop.step()


def test_an_abort_before_the_first_row_says_nothing_to_the_codec() -> None:
    talker = Talker()
    talker.open(1)
    for generation in (1, 1, 99):
        talker.loop.handle(Abort(generation=generation))
    assert talker.to_codec == []
    assert talker.to_server == [Released(generation=generation) for generation in (1, 1, 99)]


def test_a_step_that_fails_ends_all_generations_and_the_next_ones_run() -> None:
    talker = Talker()
    talker.open(1)
    talker.loop.step()
    talker.open(2)
    talker.runner.fails = 1
    talker.runner.abort_fails = True
    assert talker.loop.step()
    talker.runner.abort_fails = False
    assert talker.to_codec[-1] == End(generation=1, reason="abort")
    assert [(type(message), message.generation) for message in talker.to_server] == [(Failed, 1), (Failed, 2)]
    assert all("device lost" in message.detail for message in talker.to_server if isinstance(message, Failed))
    assert talker.state.free_slots == 3
    talker.open(3)
    talker.run()
    assert talker.rows_of(3) == delay(frames_of(5, 12)).tolist()


def test_a_fault_that_repeats_is_raised() -> None:
    talker = Talker()
    talker.runner.fails = MAX_FAULTS
    for _ in range(MAX_FAULTS - 1):
        assert talker.loop.step()
    with pytest.raises(RuntimeError, match="device lost"):
        talker.loop.step()


def test_a_runner_that_takes_no_more_fails_that_generation_alone() -> None:
    talker = Talker()
    talker.open(1)
    talker.runner.fails = 1
    talker.open(2)
    assert [(type(message), message.generation) for message in talker.to_server] == [(Failed, 2)]
    assert talker.state.free_slots == 2
    talker.run()
    assert len(talker.rows_of(1)) == 12


def test_a_codec_that_goes_down_ends_everything_silently() -> None:
    talker = Talker()
    talker.open(1)
    talker.loop.step()
    sent = len(talker.to_codec)
    for peer in (Peer(stage="codec", up=True), Peer(stage="talker", up=False)):
        talker.loop.handle(peer)
    assert talker.state.free_slots == 2
    talker.loop.handle(Peer(stage="codec", up=False))
    assert talker.state.free_slots == 3
    assert not talker.loop.step()
    assert (len(talker.to_codec), talker.to_server) == (sent, [])


def test_stop_frees_all_and_closes_the_runner() -> None:
    talker = Talker()
    talker.open(1)
    talker.loop.handle(Stop())
    assert talker.loop.stopped
    assert talker.runner.closed
    assert not talker.runner.speaking


def test_what_is_for_somebody_else_is_an_error() -> None:
    with pytest.raises(TypeError, match="takes no Ping"):
        Talker().loop.handle(Ping(nonce=1))


def test_statistics() -> None:
    talker = Talker()
    talker.open(1, end=0)
    talker.run()
    talker.open(2)
    stats = talker.loop.stats()
    assert stats["live_generations"] == 1
    assert stats["free_slots"] == 2
    assert (stats["generations_total"], stats["rows_total"], stats["steps_total"]) == (2, 7, 7)
    assert stats["step_seconds:sum"] == pytest.approx(7e-3)
    assert (stats["step_slots:le:1"], stats["step_slots:le:inf"]) == (7, 7)
    assert stats["kv_used_ratio"] == 0.5


class AnyOrder(RuleBasedStateMachine):
    """Any order of commands and steps: the codec sees every generation begun once and ended once, with its own rows."""

    @initialize(ahead=st.sampled_from([0, 2]))
    def start(self, ahead: int) -> None:
        self.talker = Talker(ahead)
        self.ends: dict[int, int] = {}
        self.aborts = 0

    @rule(end=st.integers(0, 12), max_rows=st.integers(1, 25), with_reference=st.booleans())
    def open(self, end: int, max_rows: int, with_reference: bool) -> None:
        generation = len(self.ends) + 1
        self.ends[generation] = end
        self.talker.open(generation, end, max_rows, reference=int(with_reference))

    @rule(frames=st.integers(0, 60))
    def put(self, frames: int) -> None:
        self.talker.loop.handle(PutReference(reference=1, codes=reference(frames)))

    @rule()
    def drop(self) -> None:
        self.talker.loop.handle(DropReference(reference=1))

    @precondition(lambda self: self.ends)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        self.aborts += 1
        self.talker.loop.handle(Abort(generation=data.draw(st.integers(1, len(self.ends) + 1))))

    @rule(steps=st.integers(1, 6))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            self.talker.loop.step()

    @rule()
    def fault(self) -> None:
        self.talker.runner.fails = 1
        self.talker.loop.step()
        self.open(0, 7, False)  # a step that works: or it would be a fault that repeats
        self.talker.loop.step()

    @invariant()
    def the_codec_can_follow(self) -> None:
        open_, over = set[int](), set[int]()
        for message in self.talker.to_codec:
            if isinstance(message, Begin):
                assert message.generation not in open_ | over
                open_.add(message.generation)
            elif isinstance(message, End):
                open_.remove(message.generation)
                over.add(message.generation)
            elif isinstance(message, Rows):
                assert len(message.codes)
                assert set(message.generations.tolist()) <= open_
        for generation, end in self.ends.items():
            rows = self.talker.rows_of(generation)
            assert rows == delay(frames_of(end, NEVER))[: len(rows)].tolist()

    @invariant()
    def everything_is_answered_once(self) -> None:
        answers = [message.generation for message in self.talker.to_server if not isinstance(message, Released)]
        assert len(answers) == len(set(answers))
        assert sum(isinstance(message, Released) for message in self.talker.to_server) == self.aborts

    def teardown(self) -> None:
        if hasattr(self, "talker"):
            self.talker.run()
            self.talker.loop.handle(DropReference(reference=1))
            assert (self.talker.state.free_slots, self.talker.state.free_bank_rows) == (3, 60)
            ended = sum(isinstance(message, End) for message in self.talker.to_codec)
            assert ended == sum(isinstance(message, Begin) for message in self.talker.to_codec)


NEVER = 10**6
TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
