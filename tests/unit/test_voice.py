"""References: who holds them, what the talker is sent, what a stream's voice is."""

from __future__ import annotations

import numpy as np
import pytest

from talkwire_pipeline.messages import Codes, DropReference, Message, PutReference
from talkwire_pipeline.voice import ReferenceStore, StreamVoice, segment_seed


def codes(frames: int, value: int = 1) -> Codes:
    return np.full((frames, 8), value, np.int16)


@pytest.fixture
def sent() -> list[Message]:
    return []


@pytest.fixture
def store(sent: list[Message]) -> ReferenceStore:
    return ReferenceStore(sent.append)


def test_a_reference_is_sent_once_and_dropped_once(store: ReferenceStore, sent: list[Message]) -> None:
    reference = store.hold(codes(30), "words")
    store.ensure(reference)
    store.ensure(reference)
    store.drop(reference)
    assert [type(message) for message in sent] == [PutReference, DropReference]
    assert len(store) == 0


def test_a_reference_that_was_never_sent_needs_no_drop(store: ReferenceStore, sent: list[Message]) -> None:
    store.drop(store.hold(codes(30), None))
    assert sent == []


def test_a_talker_that_forgot_gets_it_again(store: ReferenceStore, sent: list[Message]) -> None:
    reference = store.hold(codes(30), None)
    store.ensure(reference)
    assert store.send_again(reference.id)
    store.forget_sent()
    store.ensure(reference)
    assert len(sent) == 3
    store.drop(reference)
    assert not store.send_again(reference.id)


def test_the_anchor_is_the_first_segment_of_a_second_or_more(store: ReferenceStore) -> None:
    voice = StreamVoice(store, max_reference_s=20)
    assert voice.reference("anchor") is None
    voice.spoken("anchor", codes(24), "short")
    assert voice.reference("anchor") is None
    voice.spoken("anchor", codes(25, 2), "first")
    voice.spoken("anchor", codes(50, 3), "second")
    anchor = voice.reference("anchor")
    assert anchor is not None
    assert anchor.text == "first"
    assert anchor.codes[0, 0] == 2


def test_rolling_takes_the_last_segment_and_lets_go_of_the_one_before(store: ReferenceStore) -> None:
    voice = StreamVoice(store, max_reference_s=20)
    voice.spoken("rolling", codes(25), "first")
    voice.spoken("rolling", codes(30), "second")
    last = voice.reference("rolling")
    assert last is not None
    assert last.text == "second"
    assert len(store) == 1


def test_a_segment_that_is_too_long_leaves_its_tail_without_words(store: ReferenceStore) -> None:
    voice = StreamVoice(store, max_reference_s=2)
    long = np.arange(80, dtype=np.int16)[:, None].repeat(8, 1)
    voice.spoken("rolling", long, "words")
    last = voice.reference("rolling")
    assert last is not None
    assert last.text is None
    assert last.codes[:, 0].tolist() == list(range(30, 80))


def test_off_keeps_nothing(store: ReferenceStore) -> None:
    voice = StreamVoice(store, max_reference_s=20)
    voice.spoken("off", codes(100), "words")
    assert voice.reference("off") is None
    assert len(store) == 0


def test_a_closed_stream_holds_nothing_and_takes_nothing(store: ReferenceStore) -> None:
    voice = StreamVoice(store, max_reference_s=20)
    voice.spoken("anchor", codes(25), "first")
    voice.close()
    voice.close()
    voice.spoken("anchor", codes(25), "late")
    assert len(store) == 0


def test_a_reference_is_a_copy(store: ReferenceStore) -> None:
    view = codes(30)
    reference = store.hold(view, None)
    view[:] = 0
    assert reference.codes[0, 0] == 1


def test_segments_draw_with_seeds_of_their_own() -> None:
    seeds = {segment_seed(seed, segment) for seed in range(20) for segment in range(20)}
    assert len(seeds) == 400
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert segment_seed(7, 3) == segment_seed(7, 3)
