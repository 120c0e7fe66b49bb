"""What a stage is told when it is started: one JSON document, through a pipe whose descriptor is in its arguments."""

from __future__ import annotations

import os

import msgspec

from talkwire_pipeline.connector.ring import RingFds
from talkwire_pipeline.deploy import Deploy
from talkwire_pipeline.messages import StageName


class StageConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One stage's configuration. All descriptors are the stage's own from the start.

    Attributes:
        stage: which one it is.
        build: `module:function` that makes its loop: a `talkwire_pipeline.stage.process.Build`.
        deploy: the resolved deployment.
        commands: ring from the server.
        replies: ring to the server.
        codes: ring from the talker to the codec.
        life: reads end of file when the server is gone.
        log_level: lowest level that the server wants to hear.
    """

    stage: StageName
    build: str
    deploy: Deploy
    commands: RingFds
    replies: RingFds
    codes: RingFds
    life: int
    log_level: int

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All descriptors that the process must inherit."""
        rings = (self.commands, self.replies, self.codes)
        return (self.life, *(fd for ring in rings for fd in (ring.memory, ring.data, ring.space)))

    @property
    def threads(self) -> int:
        """CPU threads of the process."""
        return getattr(self.deploy.stages, self.stage).threads  # type: ignore[no-any-return]

    @property
    def niceness(self) -> int:
        """What is added to its nice value."""
        return getattr(self.deploy.stages, self.stage).niceness  # type: ignore[no-any-return]


def config_pipe(config: StageConfig) -> int:
    """The read end of a pipe that holds the configuration. Raises `ValueError` if a pipe cannot hold it."""
    content = msgspec.json.encode(config)
    reading, writing = os.pipe()
    try:
        os.set_blocking(writing, False)  # whoever reads it does not run yet
        if os.write(writing, content) != len(content):
            raise ValueError(f"a configuration of {len(content)} bytes does not fit a pipe")
    except (ValueError, OSError):
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return reading


def read_config(fd: int) -> StageConfig:
    """Reads the configuration and closes the descriptor."""
    with open(fd, "rb") as pipe:
        return msgspec.json.decode(pipe.read(), type=StageConfig)
