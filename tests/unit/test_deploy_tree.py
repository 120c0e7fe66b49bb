"""YAML into trees, and the merge of trees."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talkwire_pipeline.deploy.tree import Leaf, Origin, Section, merge, parse, parse_value, plain, put
from talkwire_pipeline.errors import DeployError

NAMES = st.sampled_from("abcd")
SCALARS = st.one_of(st.integers(), st.booleans(), st.text(max_size=3), st.lists(st.integers(), max_size=2))
TREES = st.recursive(
    st.dictionaries(NAMES, SCALARS, max_size=3),
    lambda below: st.dictionaries(NAMES, st.one_of(SCALARS, below), max_size=3),
    max_leaves=12,
)


def section(tree: dict[str, Any], source: str = "t") -> Section:
    origin = Origin(source)
    return Section(
        origin,
        {key: section(v, source) if isinstance(v, dict) else Leaf(v, origin) for key, v in tree.items()},
    )


def containers(value: object) -> list[int]:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [id(value)] if isinstance(value, dict | list) else []
    return own + [each for child in below for each in containers(child)]


@given(TREES)
def test_merging_a_tree_with_itself_or_nothing_changes_nothing(tree: dict[str, Any]) -> None:
    assert plain(merge(section(tree), section(tree))) == tree
    assert plain(merge(section({}), section(tree))) == plain(merge(section(tree), section({}))) == tree


@given(TREES, TREES, TREES)
def test_it_does_not_matter_in_which_order_three_are_merged(
    one: dict[str, Any], two: dict[str, Any], three: dict[str, Any]
) -> None:
    """Unless a leaf between two sections cuts the lower one off, which the schema has refused before."""
    a, b, c = section(one), section(two), section(three)
    if shapes(one, two) and shapes(two, three) and shapes(one, three):
        assert plain(merge(merge(a, b), c)) == plain(merge(a, merge(b, c)))


def shapes(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether what is a mapping in one is one in the other."""
    both = one.keys() & other.keys()
    pairs = [(one[key], other[key]) for key in both]
    return all(
        shapes(x, y) if isinstance(x, dict) and isinstance(y, dict) else not isinstance(x, dict) | isinstance(y, dict)
        for x, y in pairs
    )


@given(TREES, TREES)
def test_the_upper_value_stands_and_nothing_is_lost(lower: dict[str, Any], upper: dict[str, Any]) -> None:
    merged = merge(section(lower, "lower"), section(upper, "upper"))
    for path, leaf in section(upper).leaves():
        found = merged.find(*path)
        assert isinstance(found, Leaf)
        assert found.value == leaf.value
        assert found.origin.source == "upper"
    assert lower.keys() | upper.keys() == merged.items.keys()


@given(TREES, TREES)
def test_a_result_shares_no_container_with_what_it_was_made_of(lower: dict[str, Any], upper: dict[str, Any]) -> None:
    result = plain(merge(section(lower), section(upper)))
    assert not set(containers(result)) & {*containers(lower), *containers(upper)}


def test_anchors_share_nothing() -> None:
    tree = parse("a: &x {list: [1, 2], deep: {list: [3]}}\nb: *x\nc: {<<: *x, more: 1}\n", "f.yaml")
    one, other = plain(tree), plain(tree)
    one["a"]["list"].append(9)
    one["a"]["deep"]["list"].append(9)
    assert one["b"] == other["a"] == other["b"] == {"list": [1, 2], "deep": {"list": [3]}}
    assert other["c"] == {"list": [1, 2], "deep": {"list": [3]}, "more": 1}
    assert len(set(containers(one))) == len(containers(one))


def test_every_value_knows_its_line() -> None:
    tree = parse("a:\n  b: 1\n  c:\n    - 2\nd: x\n", "f.yaml", layer=3)
    lines = {".".join(path): str(leaf.origin) for path, leaf in tree.leaves()}
    assert lines == {"a.b": "f.yaml:2", "a.c": "f.yaml:4", "d": "f.yaml:5"}
    assert all(leaf.origin.layer == 3 for _, leaf in tree.leaves())


def test_words_stay_words() -> None:
    tree = plain(parse("a: off\nb: yes\nc: 2020-01-01\nd: true\ne: ~\nf: 1e3\n", "f.yaml"))
    assert tree == {"a": "off", "b": "yes", "c": "2020-01-01", "d": True, "e": None, "f": "1e3"}


def test_a_value_of_the_command_line_has_no_line() -> None:
    assert parse_value("[1, {a: b}]", "--set x", 7) == Leaf([1, {"a": "b"}], Origin("--set x", 0, 7))
    assert parse_value("", "--set x") == Leaf(None, Origin("--set x", 0, 0))


def test_put_makes_a_tree_of_one_value() -> None:
    leaf = Leaf(1, Origin("here"))
    assert plain(put(("a", "b", "c"), leaf)) == {"a": {"b": {"c": 1}}}


BOMB = "a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + below] * 9)}]\n" for below, name in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n- b\n", r"f\.yaml: expected a mapping"),
        ("", r"f\.yaml: expected a mapping"),
        ("just words", r"f\.yaml: expected a mapping"),
        ("a: 1\nb: [1\n", r"f\.yaml:3: not YAML"),
        ("a: 1\n\tb: 2\n", r"f\.yaml:2: not YAML"),
        ("a: 1\n---\nb: 2\n", r"f\.yaml:2: not YAML"),
        ("a: 1\nb: 2\na: 3\n", r"f\.yaml:3: a is there twice"),
        ("a: {b: 1, b: 2}\n", r"f\.yaml:1: b is there twice"),
        ("a: 1\n2: 3\n", r"f\.yaml:2: '2' is no name of a key"),
        ("? [a]\n: 1\n", r"f\.yaml:1: a list or mapping is no name"),
        ("a: !!binary aGk=\n", r"f\.yaml:1: a bytes has no place"),
        ("a: !!set {x: null}\nb: !!python/object:os.system x\n", r"f\.yaml:2: not YAML"),
        ("a: &a {b: *a}\n", r"f\.yaml:1: an anchor that contains itself"),
        ("a: &a [*a]\n", r"f\.yaml:1: an anchor that contains itself"),
        ("a: *nobody\n", r"f\.yaml:1: not YAML: .*nobody"),
        ("a: !!int x\n", r"f\.yaml:1: 'x' cannot be read"),
        (BOMB, r"f\.yaml:\d: more than \d+ values"),
        ("a: " + "[" * 3000 + "]" * 3000, r"f\.yaml: nested too deeply"),
        ("a: \x00\n", r"f\.yaml: not YAML"),
    ],
)
def test_what_is_no_deploy_file_says_where(text: str, words: str) -> None:
    with pytest.raises(DeployError, match=words):
        parse(text, "f.yaml")
