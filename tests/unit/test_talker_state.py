from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from talkwire_pipeline.delay import BOC, EOC, delay, undelay
from talkwire_pipeline.errors import ResourceExhaustedError
from talkwire_pipeline.sampling import Sampling
from talkwire_pipeline.talker.egress import CAPACITY, EgressOverrunError
from talkwire_pipeline.talker.ids import STOP, IdSpace
from talkwire_pipeline.talker.parameters import GenerationSpec
from talkwire_pipeline.talker.state import TalkerState

IDS = IdSpace(slots=5, text_vocabulary=100, bank_rows=60)
GREEDY = Sampling(temperature=0, top_p=1)
NEVER = 10**6


def make_state(ids: IdSpace = IDS, max_positions: int = 64) -> TalkerState:
    return TalkerState(ids, max_positions, torch.device("cpu"))


def scripted(codes: Sequence[Sequence[int]]) -> torch.Tensor:
    """Logits [n, 8, 1026] whose greedy draw is `codes` [n, 8]; markers are tempting wherever they are not allowed."""
    wanted = torch.tensor(codes)
    logits = torch.zeros(len(wanted), 8, 1026)
    logits[..., BOC] = 90
    logits[:, 1:, EOC] = 90
    return logits.scatter_(2, wanted.unsqueeze(2), 9.0)


def step(state: TalkerState, slots: list[int], positions: list[int], codes: Sequence[Sequence[int]]) -> list[int]:
    ids = state.sample(scripted(codes), torch.tensor(slots), torch.tensor(positions))
    return [int(id_) for id_ in ids]


def drawn(generation: int, row: int, end: int) -> list[int]:
    """What a generation's model wants to say in a row: codes by content, EOC on codebook 0 from row `end` on."""
    codes = [(generation * 131 + row * 17 + codebook * 29) % 1024 for codebook in range(8)]
    return [EOC if row >= end else codes[0], *codes[1:]]


def expected_rows(generation: int, end: int) -> np.ndarray:
    """All rows of a generation that ends at row `end`: those of its frames, delayed."""
    frames = [[drawn(generation, row + k, NEVER)[k] for k in range(8)] for row in range(end)]
    return delay(np.array(frames, dtype=np.int16).reshape(-1, 8))


@dataclass
class Speaker:
    """A generation of the model that the state is compared with."""

    number: int
    slot: int
    prompt: int
    end: int
    sent: int = 0
    got: list[list[int]] = field(default_factory=list)
    closed: bool = False

    @property
    def rows(self) -> list[list[int]]:
        rows: list[list[int]] = expected_rows(self.number, self.end).tolist()
        return rows


class StateMachine(RuleBasedStateMachine):
    """Any interleaving of generations, with positions computed again and rubbish in between."""

    speakers = Bundle("speakers")

    @initialize()
    def start(self) -> None:
        self.state = make_state()
        self.count = 0
        self.by_slot: dict[int, Speaker] = {}

    @rule(target=speakers, prompt=st.integers(1, 9), end=st.integers(0, 12))
    def open(self, prompt: int, end: int) -> object:
        if len(self.by_slot) == IDS.slots - 1:
            with pytest.raises(ResourceExhaustedError):
                self.state.open(GenerationSpec(prompt, GREEDY))
            return multiple()
        self.count += 1
        speaker = Speaker(self.count, self.state.open(GenerationSpec(prompt, GREEDY)), prompt, end)
        assert speaker.slot not in self.by_slot
        self.by_slot[speaker.slot] = speaker
        return speaker

    @rule(chosen=st.lists(st.integers(1, 4), min_size=1, max_size=4, unique=True), rubbish=st.booleans())
    def advance(self, chosen: list[int], rubbish: bool) -> None:
        active = [self.by_slot[slot] for slot in chosen if slot in self.by_slot]
        active = [speaker for speaker in active if speaker.sent < len(speaker.rows)]
        slots = [speaker.slot for speaker in active]
        positions = [speaker.prompt - 1 + speaker.sent for speaker in active]
        codes = [drawn(speaker.number, speaker.sent, speaker.end) for speaker in active]
        if rubbish or not active:  # a slot that is none, a position that is none, slot 0
            slots, positions = [*slots, 0, 99, -1], [*positions, 3, 10**9, -7]
            codes = [*codes, [EOC] + [1] * 7, [2] * 8, [3] * 8]
        ids = step(self.state, slots, positions, codes)
        for speaker, id_, position in zip(active, ids, positions, strict=False):
            row = speaker.rows[speaker.sent]
            speaker.sent += 1
            assert (id_ == STOP) == (speaker.sent == len(speaker.rows))
            if id_ != STOP:
                assert id_ % IDS.slots == speaker.slot
                assert id_ < IDS.steps
                embedded = self.state.codes_at(torch.tensor([id_]), torch.tensor([position + 1]))
                assert embedded.tolist() == [row]
        assert STOP not in ids[len(active) :]

    @rule(speaker=speakers, back=st.integers(1, 6))
    def compute_again(self, speaker: Speaker, back: int) -> None:
        """Other logits for a position that was drawn before: what went out stays."""
        if speaker.closed or not speaker.sent:
            return
        row = max(speaker.sent - back, 0)
        (id_,) = step(self.state, [speaker.slot], [speaker.prompt - 1 + row], [[5] * 8])
        assert (id_ == STOP) == (row + 1 == len(speaker.rows))

    @rule(speaker=consumes(speakers))
    def close(self, speaker: Speaker) -> None:
        self.state.close(speaker.slot)
        self.by_slot.pop(speaker.slot, None)
        speaker.closed = True
        (id_,) = step(self.state, [speaker.slot], [speaker.prompt + 2], [[EOC] * 8])
        assert id_ != STOP

    @rule()
    def drain(self) -> None:
        batch = self.state.drain()
        for slot, number, codes, last in zip(batch.slots, batch.steps, batch.codes, batch.last, strict=True):
            speaker = self.by_slot[int(slot)]
            assert number == len(speaker.got)
            speaker.got.append(codes.tolist())
            assert last == (len(speaker.got) == len(speaker.rows))
        for speaker in self.by_slot.values():
            assert speaker.got == speaker.rows[: speaker.sent]

    @invariant()
    def slots_add_up(self) -> None:
        assert self.state.free_slots == IDS.slots - 1 - len(self.by_slot)


TestStateMachine = StateMachine.TestCase
TestStateMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("end", [0, 1, 3, 20])
def test_a_generation_that_ends_at_a_row_has_so_many_frames(end: int) -> None:
    state = make_state()
    slot = state.open(GenerationSpec(4, GREEDY))
    ids: list[int] = []
    while STOP not in ids:
        row = len(ids)
        ids += step(state, [slot], [3 + row], [drawn(1, row, end)])
    batch = state.drain()
    assert len(batch) == end + 7
    assert batch.last.tolist() == [False] * (end + 6) + [True]
    assert np.array_equal(batch.codes, expected_rows(1, end))
    assert len(undelay(batch.codes)) == end


def test_a_generation_may_draw_the_end_only_once() -> None:
    state = make_state()
    slot = state.open(GenerationSpec(1, GREEDY))
    rows = [[EOC, *[1] * 7], [7, *[1] * 7], [EOC, *[1] * 7]]
    for position, row in enumerate(rows):
        step(state, [slot], [position], [row])
    assert state.drain().codes.tolist() == [[EOC, *[BOC] * 7], [EOC, EOC, *[BOC] * 6], [EOC, EOC, EOC, *[BOC] * 5]]


def mixed_samplings() -> list[Sampling]:
    return [
        Sampling(seed=1),
        Sampling(seed=2, temperature=0),
        Sampling(seed=3, top_k=0),
        Sampling(seed=1, top_p=1, repetition_penalty=1.5),
    ]


def run(samplings: list[Sampling], order: list[int], steps: int = 20) -> dict[int, list[list[int]]]:
    """Rows of the generations in `order`, stepped together; logits are each generation's own."""
    state = make_state(IdSpace(slots=9, text_vocabulary=10, bank_rows=8))
    slots = {number: state.open(GenerationSpec(2 + number, samplings[number])) for number in order}
    for row in range(steps):
        noise = [torch.Generator().manual_seed(1000 * number + row) for number in order]
        logits = torch.stack([torch.randn(8, 1026, generator=generator) * 3 for generator in noise])
        logits[:, 0, EOC] = -50
        positions = torch.tensor([1 + number + row for number in order])
        state.sample(logits, torch.tensor([slots[number] for number in order]), positions)
    batch = state.drain()
    return {number: batch.codes[batch.slots == slots[number]].tolist() for number in order}


def test_rows_are_the_same_alone_and_beside_others() -> None:
    samplings = mixed_samplings()
    together, turned = run(samplings, [0, 1, 2, 3]), run(samplings, [3, 1, 0, 2])
    for number in range(4):
        alone = run(samplings, [number])[number]
        assert len(alone) == 20
        assert alone == together[number] == turned[number]


def test_another_seed_gives_other_rows() -> None:
    first = run([Sampling(seed=1)], [0])[0]
    assert first == run([Sampling(seed=1)], [0])[0]
    assert first != run([Sampling(seed=2**62 + 1)], [0])[0]


def test_repetition_penalty_counts_this_generation_and_this_codebook_alone() -> None:
    state = make_state(IdSpace(slots=2, text_vocabulary=10, bank_rows=8))
    sampling = Sampling(temperature=0, top_p=1, repetition_penalty=2.0)
    logits = torch.zeros(1, 8, 1026)
    logits[0, 0, 10], logits[0, 0, 11], logits[0, 1, 10] = 3.0, 2.0, 1.0
    for _ in range(2):  # the second generation has the first one's slot, and begins with nothing seen
        slot = state.open(GenerationSpec(1, sampling))
        for position in range(3):
            state.sample(logits, torch.tensor([slot]), torch.tensor([position]))
        # Codebook 0: 3 halved is below 2; then 2 halved is below 1.5. Codebook 1: 10 is not seen there at first.
        assert state.drain().codes[:, :2].tolist() == [[10, BOC], [11, 10], [10, 10]]
        state.close(slot)


def test_a_prompts_ids_embed_as_text_reference_rows_and_audio_token() -> None:
    state = make_state()
    frames = np.arange(24, dtype=np.int16).reshape(3, 8)
    reference = state.put_reference(frames)
    slot = state.open(GenerationSpec(13, GREEDY))
    ids = torch.tensor([IDS.steps + 41, *reference, IDS.steps, state.step_id(slot)])
    codes = state.codes_at(ids, torch.arange(len(ids)))
    assert codes[1:11].tolist() == delay(frames).tolist()
    assert (codes[[0, 11, 12]] == -1).all()
    assert state.text_ids(ids, audio_token=77)[[0, 11, 12]].tolist() == [41, 0, 77]


def test_a_slot_that_is_used_again_has_no_codes_of_before() -> None:
    state = make_state(IdSpace(slots=2, text_vocabulary=10, bank_rows=8))
    slot = state.open(GenerationSpec(2, GREEDY))
    for row in range(5):
        step(state, [slot], [1 + row], [[100 + row] * 8])
    state.close(slot)
    assert state.open(GenerationSpec(3, GREEDY)) == slot
    assert (state.codes_at(torch.full((10,), slot), torch.arange(2, 12)) == -1).all()
    step(state, [slot], [2], [[7] * 8])
    batch = state.drain()  # the rows of before were never drained, and are not this generation's
    assert batch.codes.tolist() == [[7, *[BOC] * 7]]
    assert batch.steps.tolist() == [0]


def test_rows_of_which_nothing_is_wanted_leave_nothing_behind() -> None:
    state = make_state()
    closed, unfinished = (state.open(GenerationSpec(5, GREEDY)) for _ in range(2))
    state.close(closed)
    slots, positions = [0, closed, unfinished], [9, 9, 2]
    ids = step(state, slots, positions, [[3] * 8] * 3)
    assert set(ids) == {IDS.slots}  # a step id of slot 0 that is not STOP
    embedded = state.codes_at(torch.tensor(slots), torch.tensor(positions) + 1)
    assert (embedded == -1).all()
    assert len(state.drain()) == 0


def test_fingerprints_follow_content() -> None:
    state = make_state()
    slots = [state.open(GenerationSpec(1, GREEDY)) for _ in range(2)]
    same = step(state, slots, [0, 0], [[3] * 8] * 2)
    assert same[0] // IDS.slots == same[1] // IDS.slots
    prints = {step(state, [slots[0]], [row], [[row * 9] * 8])[0] // IDS.slots for row in range(1, 40)}
    assert len(prints) > 20


def test_bank_ids_follow_content_when_rows_are_used_again() -> None:
    state = make_state()
    generator = np.random.default_rng(0)
    first, second = generator.integers(0, 1024, (2, 53, 8)).astype(np.int16)
    ids = state.put_reference(first)
    assert state.free_bank_rows == 0
    with pytest.raises(ResourceExhaustedError, match="60 reference rows, but room for 0"):
        state.put_reference(second)
    state.drop_reference(ids)
    other = state.put_reference(second)
    assert min(other) >= IDS.bank_base
    assert max(other) < IDS.size
    assert sum(a == b for a, b in zip(ids, other, strict=True)) < 15
    state.drop_reference(other)
    assert state.put_reference(first) == ids


@pytest.mark.parametrize("codes", [np.full((2, 8), 1024), np.full((2, 8), -1), np.zeros((2, 7)), np.zeros(8)])
def test_what_is_no_reference_is_refused(codes: np.ndarray) -> None:
    with pytest.raises(ValueError, match="codes of 0 to 1023"):
        make_state().put_reference(codes.astype(np.int16))


@pytest.mark.parametrize("length", [0, 65])
def test_a_prompt_that_cannot_fit_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=f"prompt_length {length} is not in 1 to 64"):
        make_state().open(GenerationSpec(length, GREEDY))


def test_a_warm_up_leaves_nothing_behind() -> None:
    state = make_state()
    state.put_reference(np.zeros((3, 8), dtype=np.int16))
    slot = state.open(GenerationSpec(1, Sampling(top_k=0, repetition_penalty=1.1)))
    rubbish = torch.randint(-(2**40), 2**40, (2, 128), generator=torch.Generator().manual_seed(0))
    assert state.sample(torch.randn(128, 8, 1026), rubbish[0], rubbish[1]).min() > STOP
    for _ in range(CAPACITY + 1):
        step(state, [slot], [0], [[1] * 8])
    state.codes_at(rubbish[0], rubbish[1])
    state.reset()
    assert len(state.drain()) == 0
    assert (state.free_slots, state.free_bank_rows) == (4, 60)
    assert (state.codes_at(torch.arange(IDS.steps), torch.zeros(IDS.steps, dtype=torch.int64)) == -1).all()


def test_rows_that_nobody_drained_are_reported_not_lost() -> None:
    state = make_state(max_positions=200)
    slot = state.open(GenerationSpec(1, GREEDY))
    for row in range(CAPACITY + 1):
        step(state, [slot], [row], [[1] * 8])
    assert state.pending
    with pytest.raises(EgressOverrunError):
        state.drain()
    assert not state.pending
    assert len(state.drain()) == 0


def test_generations_may_be_opened_inside_and_outside_of_inference_mode() -> None:
    with torch.inference_mode():
        state = make_state()
    slot = state.open(GenerationSpec(1, GREEDY))
    with torch.inference_mode():
        step(state, [slot], [0], [[1] * 8])
    step(state, [slot], [1], [[2] * 8])
    assert state.drain().codes[:, 0].tolist() == [1, 2]
