"""Chunk shapes and what they may be."""

import msgspec
import pytest

from talkwire_pipeline.errors import InvalidArgumentError
from talkwire_pipeline.geometry import PRESETS, Geometry, check


def test_every_preset_holds_together() -> None:
    for name, geometry in PRESETS.items():
        assert check(geometry) is geometry
        assert geometry.preset == name


def test_the_published_shapes() -> None:
    shapes = {name: (shape.steady, shape.left, shape.holdback, shape.initial) for name, shape in PRESETS.items()}
    assert shapes["v1"] == (25, 25, 4, 1)
    assert shapes["v2"] == (25, 8, 0, 8)
    assert shapes["exact"][1:3] == shapes["exact-fast"][1:3] == (10, 10)
    assert PRESETS["exact-fast"].initial_holdback == 4


def test_only_ten_frames_on_both_sides_are_seam_exact() -> None:
    assert [name for name, shape in PRESETS.items() if shape.seam_exact] == ["exact", "exact-fast"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("initial", 0),
        ("initial", 501),
        ("steady", 0),
        ("left", -1),
        ("left", 101),
        ("holdback", -1),
        ("initial_holdback", 11),
        ("ramp", (4, 0)),
        ("ramp", (501,)),
        ("preset", "fast"),
    ],
)
def test_a_number_out_of_range_is_named(field: str, value: object) -> None:
    geometry = msgspec.structs.replace(Geometry(), **{field: value})
    with pytest.raises(InvalidArgumentError, match=str(value).strip("(),").split(",")[0]) as caught:
        check(geometry, "start.geometry")
    assert caught.value.field == f"start.geometry.{field}"
