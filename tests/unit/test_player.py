"""The model of the caller's player, in virtual time."""

from talkwire_pipeline.player import Player, samples_ns

SECOND_NS = 1_000_000_000


def test_samples_play_at_24_khz() -> None:
    assert samples_ns(24_000) == SECOND_NS
    assert samples_ns(960) == 40_000_000


def test_nothing_plays_before_the_first_sample() -> None:
    assert Player().dry_ns(5) == 0


def test_it_plays_from_the_moment_of_the_first_sample() -> None:
    player = Player(received=24_000)
    player.take(24_000, now_ns=7 * SECOND_NS)
    assert player.dry_ns(7 * SECOND_NS) == 8 * SECOND_NS


def test_a_player_that_ran_dry_starts_anew_with_the_next_sample() -> None:
    player = Player(received=48_000)
    player.take(24_000, now_ns=0)
    player.take(24_000, now_ns=10 * SECOND_NS)
    assert player.dry_at_ns == 11 * SECOND_NS


def test_what_is_on_its_way_counts() -> None:
    player = Player(received=36_000)
    player.take(24_000, now_ns=0)
    assert player.outstanding == 12_000
    assert player.dry_ns(SECOND_NS // 2, coming=12_000) == 2 * SECOND_NS


def test_a_player_that_ran_dry_with_nothing_to_come_plays_nothing() -> None:
    player = Player(received=24_000)
    player.take(24_000, now_ns=0)
    assert player.dry_ns(2 * SECOND_NS) == 0
