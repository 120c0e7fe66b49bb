"""Places of streams."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from talkwire_pipeline.errors import ResourceExhaustedError
from talkwire_server.security.places import Places


def test_a_connection_and_a_key_have_so_many_and_get_them_back() -> None:
    places = Places(2, 3)
    with places.taken("a", "alice"), places.taken("a", "bob"):
        with pytest.raises(ResourceExhaustedError, match=r"connection has 2 .*max_streams_per_connection") as caught:
            places.taken("a", "alice").__enter__()
        assert (caught.value.reason, caught.value.retry_after_s) == ("CONNECTION_STREAMS", 1.0)
        with places.taken("b", "alice"), places.taken("c", "alice"):
            with pytest.raises(ResourceExhaustedError, match=r"key has 3 .*max_streams_per_key") as caught:
                places.taken("d", "alice").__enter__()
            assert caught.value.reason == "KEY_STREAMS"
        with places.taken("b", "alice"):
            pass
    assert len(places) == 0


def test_who_is_refused_takes_no_place() -> None:
    places = Places(9, 1)
    with places.taken("a", "alice"):
        for _ in range(20):
            with pytest.raises(ResourceExhaustedError):
                places.taken("b", "alice").__enter__()
        with ExitStack() as stack:
            for _ in range(9):
                stack.enter_context(places.taken("b", ""))


def test_without_a_limit_or_a_name_nothing_is_refused() -> None:
    with ExitStack() as stack:
        for places, key in ((Places(None, None), "alice"), (Places(None, 1), "")):
            for _ in range(50):
                stack.enter_context(places.taken("a", key))


def test_places_come_back_after_a_failure() -> None:
    places = Places(1, 1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), places.taken("a", "alice"):
            raise ZeroDivisionError
    assert len(places) == 0
