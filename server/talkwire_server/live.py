"""One accepted utterance as its stream sees it: events become messages, one at a time, when the writer asks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from google.protobuf.message import Message

from talkwire.v1 import speech_pb2 as pb
from talkwire_pipeline import events
from talkwire_pipeline.errors import FailedPreconditionError, TalkwireError
from talkwire_pipeline.utterance import Utterance
from talkwire_server import responses
from talkwire_server.admission import Admission
from talkwire_server.audio import Encoder, Format
from talkwire_server.errors import internal_error

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One response to be written.

    Attributes:
        utterance_id: the caller's id; empty: none fits.
        name: the response's field: `started`, `audio`, ... , `failed`, `error`.
        payload: that field's value; for `failed` and `error` what it was.
        request_id: `server_id` for the details of an error.
        taken: called when it was written.
    """

    utterance_id: str
    name: str
    payload: Message | TalkwireError
    request_id: str = ""
    taken: Callable[[], None] = lambda: None


class LiveUtterance:
    """Pulls the utterance's events; nothing is buffered here.

    Attributes:
        utterance: the pipeline's.
        utterance_id: the caller's id.
        ended: its end event was taken, or it was dropped.
        text_over: the caller said that no more text comes.
        aborting: an abort was asked for; more input is ignored.
    """

    def __init__(self, utterance_id: str, utterance: Utterance, form: Format, admission: Admission) -> None:
        self.utterance = utterance
        self.utterance_id = utterance_id
        self.ended = False
        self.text_over = False
        self.aborting = False
        self._form = form
        self._encoder = Encoder(form)
        self._admission = admission
        self._sequence = 0

    def take(self) -> Outgoing | None:
        """The next response, or None if there is nothing now. A fault of ours becomes this utterance's end alone."""
        try:
            event = self.utterance.take()
            return None if event is None else self._outgoing(event)
        except Exception:
            error, fault_id = internal_error("the utterance")
            log.exception("fault %s", fault_id, extra={"server_id": self.utterance.server_id})
            return self.fail(error)

    def push(self, text: str) -> None:
        """More text. Raises `FailedPreconditionError` behind the end of the text."""
        if self.text_over:
            raise FailedPreconditionError("text: this utterance's end has come before it", reason="TEXT_AFTER_END")
        self._admission.push(self.utterance, text)

    def flush(self) -> None:
        """Speaks what is there. Raises `FailedPreconditionError` behind the end of the text."""
        if self.text_over:
            raise FailedPreconditionError("flush: this utterance's end has come before it", reason="FLUSH_AFTER_END")
        self._admission.note(self.utterance, "flush")
        self.utterance.flush()

    def end(self) -> None:
        """No more text. Idempotent."""
        self.text_over = True
        self.utterance.end()

    def abort(self, played_samples: int | None = None) -> None:
        """Drops it; `aborted` follows. A second abort changes nothing."""
        if not self.aborting:
            self.aborting = True
            self._admission.abort(self.utterance, played_samples)

    def drop(self) -> None:
        """Nobody listens any more: frees all that it holds. Idempotent."""
        self._end(None)

    def fail(self, error: TalkwireError) -> Outgoing:
        """Frees all that it holds; the `failed` to be written."""
        failed = events.Failed(error)
        self._end(failed)
        return self._outgoing(failed)

    def _end(self, event: events.Event | None) -> None:
        if not self.ended:
            self.ended = True
            self._admission.ended(self.utterance, event)
            self.abort()

    def _outgoing(self, event: events.Event) -> Outgoing:
        if isinstance(event, events.END_EVENTS):
            self.ended = True
        match event:
            case events.Started():
                return self._plain("started", responses.started(event, self._form))
            case events.Audio():
                return self._audio(event)
            case events.Timing():
                return self._plain("timing", responses.timing(event))
            case events.Flushed():
                return self._plain("flushed", responses.flushed(event))
            case events.Finished():
                return self._plain("finished", responses.finished(event))
            case events.Aborted():
                return self._plain("aborted", responses.aborted(event))
            case events.Failed(error=error):
                return self._plain("failed", error)

    def _plain(self, name: str, payload: Message | TalkwireError) -> Outgoing:
        return Outgoing(self.utterance_id, name, payload, self.utterance.server_id)

    def _audio(self, event: events.Audio) -> Outgoing:
        data = self._encoder.encode(event.samples)
        payload = pb.Audio(sequence=self._sequence, first_sample=event.first_sample, data=data)
        self._sequence += 1
        samples = len(event.samples)

        def taken() -> None:
            self.utterance.credit(samples)
            self._admission.metrics.audio_sent(samples)

        return Outgoing(self.utterance_id, "audio", payload, taken=taken)
