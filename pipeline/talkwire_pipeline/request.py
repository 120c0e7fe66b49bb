"""What a caller asks of an utterance."""

from __future__ import annotations

from dataclasses import dataclass, field

from talkwire_pipeline.geometry import Geometry
from talkwire_pipeline.sampling import SamplingChoice
from talkwire_pipeline.voice import Continuity


@dataclass(frozen=True, slots=True)
class UtteranceRequest:
    """Settings of one utterance; what is unset takes the deployment's value.

    Attributes:
        sampling: how codes are drawn.
        geometry: how audio is cut into chunks.
        language: BCP 47 tag of the text.
        voice: name of a voice; empty: the default.
        continuity: where a segment takes its voice from.
        priority: smaller is served first.
        timeout_s: limit from the start to the end event.
        first_audio_timeout_s: limit from the first speakable text to the first audio.
    """

    sampling: SamplingChoice = field(default_factory=SamplingChoice)
    geometry: Geometry | None = None
    language: str = ""
    voice: str = ""
    continuity: Continuity | None = None
    priority: int = 0
    timeout_s: float | None = None
    first_audio_timeout_s: float | None = None
