"""What an utterance needs of the pipeline around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from talkwire_pipeline.deploy.schema import Deploy
from talkwire_pipeline.text.frontend import TextFrontEnd

if TYPE_CHECKING:
    from talkwire_pipeline.generation import Generation
    from talkwire_pipeline.utterance import Utterance


class Host(Protocol):
    """The pipeline, as an utterance sees it."""

    @property
    def deploy(self) -> Deploy:
        """The deployment."""

    @property
    def frontend(self) -> TextFrontEnd:
        """Cuts and reads text."""

    @property
    def first_audio_s(self) -> float:
        """How long a segment's first audio takes of late, from its slot on."""

    @property
    def credit_samples(self) -> int:
        """Samples that may be decoded ahead of what a caller has taken."""

    def check(self, priority: int, left_s: float) -> None:
        """Whether a segment may begin to wait whose first audio must come within `left_s`.

        Raises `UnavailableError` while a stage is down, and `ResourceExhaustedError` where it would come too late.
        """

    def submit(self, generation: Generation) -> None:
        """Lets it wait for a slot; `Utterance.open_generation` follows."""

    def open(self, generation: Generation) -> bool:
        """Sends it to the talker with its `place`. False: there is nothing to speak in it.

        Raises the `TalkwireError` that hinders it.
        """

    def credit(self, generation: Generation, samples: int) -> None:
        """The caller has taken so many samples more of it."""

    def abort(self, generation: Generation) -> bool:
        """Drops it wherever it is. True: a stage holds it, and `generation.released` will be set."""

    def left(self, utterance: Utterance) -> None:
        """The utterance is over."""
