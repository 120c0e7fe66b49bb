"""The demo voice in a talker without processes: texts, their prompts, the embedded runner."""

from __future__ import annotations

from functools import cache

from support.talker import Talker
from talkwire_pipeline.checkpoint import Checkpoint, read_checkpoint, resolve_checkpoint
from talkwire_pipeline.deploy.schema import Dtype
from talkwire_pipeline.talker.embedded import EmbeddedRunner
from talkwire_pipeline.talker.state import TalkerState
from talkwire_pipeline.text.prompt import PromptBuilder
from talkwire_pipeline.weights import load_talker

TEXTS = (
    "The old mill stands by the river.",
    "Hello there.",
    "She opened the window and let the cold morning air into the room.",
    "Never mind, it will be fine tomorrow.",
    "Twelve boats left the harbor.",
    "Yes.",
    "He asked for a map, a lamp and a loaf of bread.",
    "Where did you put the keys?",
)


@cache
def checkpoint() -> Checkpoint:
    return read_checkpoint(resolve_checkpoint("demo"))


@cache
def prompts(texts: tuple[str, ...] = TEXTS) -> tuple[list[int], ...]:
    """Ids of the tokenizer; the last one is `<|audio|>`."""
    builder = PromptBuilder(checkpoint().folder)
    return tuple(builder.build(text, None, 0).ids.tolist() for text in texts)


def embedded(state: TalkerState, *, max_model_len: int, chunk: int, dtype: Dtype = "auto") -> Talker:
    """The embedded runner over a state, on the state's device; `chunk` prompt ids are prefilled at a time."""
    runner = EmbeddedRunner(
        checkpoint().talker,
        load_talker(checkpoint(), state.device),
        state,
        state.ids,
        audio_token_id=prompts()[0][-1],
        max_model_len=max_model_len,
        max_num_batched_tokens=chunk,
        device=state.device,
        dtype=dtype,
    )
    return Talker(state, runner)
