"""What it takes to speak an utterance again on another call: possible until its first audio, and once. Pure."""

from __future__ import annotations

from collections import Counter

from talkwire.v1 import speech_pb2 as pb


class Replay:
    """Keeps an utterance's requests until they are not needed any more, and hides what comes a second time."""

    def __init__(self) -> None:
        self._requests: list[pb.ConverseRequest] | None = []
        self._heard: Counter[type] = Counter()
        self._known: Counter[type] = Counter()
        self._seed: int | None = None

    def record(self, request: pb.ConverseRequest) -> None:
        """A request is on its way. After an abort there is nothing to be spoken again."""
        if request.HasField("abort"):
            self._requests = None
        elif self._requests is not None:
            self._requests.append(request)

    def is_new(self, event: object) -> bool:
        """Whether an event that came was not already heard before the call was lost."""
        if isinstance(event, pb.Audio):
            self._requests = None
        elif isinstance(event, pb.Started):
            self._seed = event.seed
        if self._known[type(event)]:
            self._known[type(event)] -= 1
            return False
        self._heard[type(event)] += 1
        return True

    def take(self) -> list[pb.ConverseRequest] | None:
        """The requests to be sent again, with the seed that the server had drawn; None: it cannot be done (again)."""
        requests, self._requests = self._requests, None
        if requests and self._seed is not None:
            requests[0].start.sampling.seed = self._seed
        self._known = Counter(self._heard)
        return requests
