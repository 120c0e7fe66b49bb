"""Prompts and front end, with the demo checkpoint's own tokenizer and config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from talkwire_pipeline.deploy.schema import Text
from talkwire_pipeline.errors import CheckpointError, InvalidArgumentError
from talkwire_pipeline.text.cap import cap_rows
from talkwire_pipeline.text.frontend import Prepared, TextFrontEnd
from talkwire_pipeline.text.prompt import PromptBuilder
from talkwire_pipeline.text.segmenter import Segment
from talkwire_pipeline.text.terminal import with_terminal

DEMO = Path(__file__).parents[2] / "pipeline" / "talkwire_demo"
TOKENIZER = Tokenizer.from_file(str(DEMO / "tokenizer.json"))
PROMPTS = PromptBuilder(DEMO)
FRONT_END = TextFrontEnd(DEMO, Text())
PLAIN = TextFrontEnd(DEMO, Text(text_normalization="none"))


def ids(*tokens: str) -> list[int]:
    return [TOKENIZER.token_to_id(token) for token in tokens]


def segment(text: str, **fields: Any) -> Segment:
    return Segment(text, 0, len(text), **fields)


def say(text: str, **fields: Any) -> Prepared:
    return FRONT_END.prepare(segment(text, **fields))


def test_a_prompt() -> None:
    prompt = PROMPTS.build("Hi")
    assert prompt.ids.dtype.name == "int32"
    assert prompt.ids.tolist() == ids("<|tts|>", "<|text|>", "h", "i", "<|audio|>")
    assert (prompt.reference_at, prompt.reference_rows, prompt.positions) == (0, 0, 5)


def test_a_prompt_with_a_reference_says_where_its_rows_go() -> None:
    prompt = PROMPTS.build("Hi", reference_text="a b", reference_frames=10)
    head = ids("<|tts|>", "<|ref_text|>", "a", " ", "b", "<|ref_audio|>")
    assert prompt.ids.tolist() == head + ids("<|text|>", "h", "i", "<|audio|>")
    assert (prompt.reference_at, prompt.reference_rows, prompt.positions) == (len(head), 17, 27)


def test_a_reference_without_transcript() -> None:
    prompt = PROMPTS.build("Hi", reference_frames=10)
    assert prompt.ids.tolist() == ids("<|tts|>", "<|ref_audio|>", "<|text|>", "h", "i", "<|audio|>")
    assert prompt.reference_at == 2


def test_text_is_encoded_as_the_tokenizer_does() -> None:
    text = "Héllo  “world” — <|emotion:joy|> 42 <|prosody:pause|>… end"
    assert PROMPTS.encode(text) == TOKENIZER.encode(text, add_special_tokens=False).ids


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["<|", "|>", "tts", "<|tts|>", "<|im_start|>", "a", "<|sfx:sigh|>", " "])).map("".join))
def test_no_text_becomes_one_of_the_models_own_tokens(text: str) -> None:
    own = {TOKENIZER.token_to_id(token) for token in PROMPTS.controls.refused}
    assert own
    assert not own & set(PROMPTS.encode(text))


def test_added_tokens_of_any_form_are_not_read_from_text(tmp_path: Path) -> None:
    tokenizer = json.loads((DEMO / "tokenizer.json").read_text())
    tokenizer["added_tokens"].append({**tokenizer["added_tokens"][-1], "id": 120, "content": "think", "special": False})
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert PromptBuilder(tmp_path).encode("think") == ids(*"think")


@pytest.mark.parametrize("special", ["<|tts|>", "<|text|>", "<|audio|>", "<|ref_audio|>", "<|ref_text|>"])
def test_a_missing_special_token_is_named(tmp_path: Path, special: str) -> None:
    tokenizer = json.loads((DEMO / "tokenizer.json").read_text())
    tokenizer["added_tokens"] = [token for token in tokenizer["added_tokens"] if token["content"] != special]
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(CheckpointError) as error:
        PromptBuilder(tmp_path)
    assert special in error.value.message
    assert "tokenizer.json" in error.value.message


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_tokenizer_that_cannot_be_read_is_named(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        PromptBuilder(tmp_path)


def test_the_checkpoint_says_how_its_text_is_read_and_the_deploy_file_overrules_it() -> None:
    assert (FRONT_END.max_segment_chars, FRONT_END.text_normalization) == (300, "words")
    changed = TextFrontEnd(DEMO, Text(max_segment_chars=80, text_normalization="none"))
    assert (changed.max_segment_chars, changed.text_normalization) == (80, "none")


def test_a_checkpoint_that_says_nothing_gets_its_text_unchanged(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer.json").write_bytes((DEMO / "tokenizer.json").read_bytes())
    front_end = TextFrontEnd(tmp_path, Text())
    assert (front_end.max_segment_chars, front_end.text_normalization) == (400, "none")
    assert front_end.prepare(segment(" It costs $5  & more. ")).spoken_text == "It costs $5  & more."


@pytest.mark.parametrize("content", [None, "{", "[]", '{"text_normalization": "all"}'])
def test_a_config_that_cannot_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    (tmp_path / "tokenizer.json").write_bytes((DEMO / "tokenizer.json").read_bytes())
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        TextFrontEnd(tmp_path, Text())


def test_prepare_spells_out_and_caps_what_is_spoken() -> None:
    prepared = say("I paid $4.50. ")
    assert prepared.spoken_text == "I paid four dollars and fifty cents."
    assert prepared.prompt.ids.tolist() == PROMPTS.build(prepared.spoken_text).ids.tolist()
    assert prepared.max_rows == cap_rows(prepared.spoken_text, Text().cap)
    assert prepared.speakable


@pytest.mark.parametrize(
    ("text", "continues", "spoken"),
    [
        ("Hello ", False, "Hello."),
        ("Hello ", True, "Hello,"),
        ("Hello? ", True, "Hello?"),
        ("the quick (brown) ", False, "the quick (brown)."),
        ("Hello <|prosody:pause|> ", False, "Hello. <|prosody:pause|>"),
        ("Hello 😀", False, "Hello."),
    ],
)
def test_a_mark_is_supplied_to_the_model_and_not_to_the_text(text: str, continues: bool, spoken: str) -> None:
    prepared = say(text, continues=continues)
    assert prepared.spoken_text == spoken
    assert prepared.body.text == FRONT_END.normalize(text).text


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("你好", "你好。"),
        ("“Hi”", "“Hi”."),
        ("Hi!", "Hi!"),
        ("<|sfx:sigh|>", "<|sfx:sigh|>"),
        ("", ""),
        ("x 😀", "x 😀."),
    ],
)
def test_the_mark_fits_the_script(text: str, whole: str) -> None:
    assert with_terminal(text, ".") == whole


def test_delivery_comes_first_and_once() -> None:
    delivery = ("<|emotion:joy|>", "<|prosody:speed_slow|>")
    first = say(" <|emotion:joy|> <|prosody:speed_slow|>Hi <|prosody:pause|> you.", delivery=delivery)
    assert first.spoken_text == "<|emotion:joy|><|prosody:speed_slow|>Hi <|prosody:pause|> you."
    assert say("And you.", delivery=delivery).spoken_text == "<|emotion:joy|><|prosody:speed_slow|>And you."
    assert first.max_rows > 1.4 * say("Hi <|prosody:pause|> you.").max_rows


@pytest.mark.parametrize("text", [" ", "😀", "...", "你好", "<|prosody:pause|>"])
def test_nothing_to_speak(text: str) -> None:
    prepared = say(text)
    assert (prepared.speakable, prepared.max_rows) == (False, 0)


def test_a_segment_that_is_marked_unspeakable_stays_so() -> None:
    assert not say("+", speakable=False).speakable


def test_spans_lead_back_into_the_segment() -> None:
    text = "<|emotion:joy|>I paid $4.50 today."
    prepared = say(text, delivery=("<|emotion:joy|>",))
    sources = {prepared.body.text[a:b]: text[c:d] for a, b, c, d in prepared.body.spans}
    assert sources["four dollars and fifty cents"] == "$4.50"
    assert sources["today"] == "today"


def test_a_reference_transcript_is_read_the_same_way() -> None:
    prepared = FRONT_END.prepare(segment("Hi."), reference_text="It is 5.", reference_frames=30)
    assert prepared.prompt.ids.tolist() == PROMPTS.build("Hi.", "It is five.", 30).ids.tolist()


def test_the_models_length_bounds_prompt_and_rows() -> None:
    text = "word " * 40
    free = say(text)
    tight = TextFrontEnd(DEMO, Text(), max_model_len=free.prompt.positions + free.max_rows - 1)
    assert tight.prepare(segment(text)).max_rows == free.max_rows - 1
    with pytest.raises(InvalidArgumentError, match="use a shorter reference"):
        tight.prepare(segment(text), reference_frames=600)


def test_a_segmenter_counts_digits_as_they_are_spelt() -> None:
    segmenter = FRONT_END.segmenter("en-US")
    pieces = segmenter.feed("0123456789 " * 60) + segmenter.end()
    assert max(len(FRONT_END.prepare(piece).spoken_text) for piece in pieces) <= 310
    plain = PLAIN.segmenter("en")
    assert max(len(piece.text) for piece in plain.feed("0123456789 " * 60)) > 200


def test_a_segmenter_knows_the_checkpoints_control_tokens() -> None:
    with pytest.raises(InvalidArgumentError, match="nearest"):
        FRONT_END.segmenter("en").feed("<|emotion:joyful|> Hi")


@pytest.mark.parametrize("text", ["a\x00b", "\x1b[0m", "x\ud800", "\udfff", "\x1c"])
def test_characters_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"U\+[0-9A-F]{4} at position \d+") as error:
        FRONT_END.check(text)
    assert error.value.field == "text.text"


def test_white_space_is_allowed() -> None:
    FRONT_END.check("a\tb\r\nc\v\fd\u00a0e\x7f")
