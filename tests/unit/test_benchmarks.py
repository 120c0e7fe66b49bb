"""What the benchmarks share."""

from benchmarks.spread import spread


def test_a_spread_is_the_median_with_the_least_and_the_most() -> None:
    assert spread([3.0, 10.0, 1.26]) == "3.0 (1.3-10.0)"
    assert spread([1.0, 2.0], 2) == "1.50 (1.00-2.00)"
    assert spread([118.6], 0) == "119 (119-119)"
