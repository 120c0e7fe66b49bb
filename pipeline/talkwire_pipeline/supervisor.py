"""Runs the two stages as processes, joined by rings in shared memory. asyncio, no torch."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from talkwire_pipeline.child import Child
from talkwire_pipeline.connector.ring import Ring
from talkwire_pipeline.deploy import Deploy
from talkwire_pipeline.keeper import Keeper, Limits
from talkwire_pipeline.link import Link
from talkwire_pipeline.messages import Message, Peer, StageName
from talkwire_pipeline.stage.config import StageConfig
from talkwire_pipeline.stages import OnMessage, OnState, StageHealth, Stages, StageState

log = logging.getLogger(__name__)

__all__ = ["Limits", "OnMessage", "OnState", "StageState", "Stages", "Supervisor"]

BUILDERS: Mapping[StageName, str] = {
    "talker": "talkwire_pipeline.talker.stage:build",
    "codec": "talkwire_pipeline.codec.stage:build",
}
"""What makes each stage's loop, in its own process."""
_OTHER: Mapping[StageName, StageName] = {"talker": "codec", "codec": "talker"}


class Supervisor:
    """`Stages` as two processes, joined with this one and with each other by five rings in shared memory.

    The rings outlive the processes: a restarted stage gets the same descriptors and drops what it finds there.

    Args:
        deploy: the resolved deployment.
        limits: how long things may take; how long a start may is the deployment's to say.
        builders: `module:function` of each stage, a `talkwire_pipeline.stage.process.Build`.
    """

    def __init__(
        self, deploy: Deploy, *, limits: Limits | None = None, builders: Mapping[StageName, str] = BUILDERS
    ) -> None:
        self._deploy = deploy
        self._limits = limits or Limits()
        self._builders = builders
        self._rings: dict[str, Ring] = {}
        self._keepers: dict[StageName, Keeper] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._pinging: asyncio.TimerHandle | None = None
        self._stalled: dict[StageName, bool] = dict.fromkeys(_OTHER, False)
        self._closing: asyncio.Task[None] | None = None

    async def start(self, on_message: OnMessage, on_state: OnState) -> None:
        """See `Stages.start`. May be called once."""
        self._on_state = on_state
        self._create_rings()
        for stage in _OTHER:
            self._keepers[stage] = self._keeper(stage, on_message)
        self._tasks = [asyncio.create_task(each.run(), name=each.stage) for each in self._keepers.values()]
        try:
            await asyncio.gather(*(each.first for each in self._keepers.values()))
        except BaseException:
            await self.close()
            raise

    def send(self, stage: StageName, message: Message) -> None:
        """See `Stages.send`."""
        self._keepers[stage].send(message)

    def watch(self, work_due: bool) -> None:
        """See `Stages.watch`. When work ends, a last ping brings the stages' figures up to date."""
        if work_due and self._pinging is None:
            self._ping()
        elif not work_due and self._pinging is not None:
            self._stop_pinging()
            for keeper in self._keepers.values():
                keeper.ping()
                keeper.forgive()

    def state(self, stage: StageName) -> StageState:
        """See `Stages.state`."""
        return self._keepers[stage].state if self._keepers else "down"

    def fault(self, stage: StageName) -> str:
        """See `Stages.fault`."""
        return self._keepers[stage].fault if self._keepers else ""

    def facts(self, stage: StageName) -> dict[str, Any]:
        """See `Stages.facts`."""
        return self._keepers[stage].facts if self._keepers else {}

    def stats(self, stage: StageName) -> dict[str, float]:
        """See `Stages.stats`."""
        return self._keepers[stage].stats if self._keepers else {}

    def health(self, stage: StageName) -> StageHealth:
        """See `Stages.health`."""
        if not self._keepers:
            return StageHealth()
        keeper = self._keepers[stage]
        return StageHealth(keeper.pid, max(keeper.restarts, 0), keeper.silence_s)

    def pid(self, stage: StageName) -> int:
        """The stage's process; 0: none runs."""
        return self.health(stage).pid

    async def close(self) -> None:
        """Asks both to stop, ends those that do not, and frees all that was theirs. Idempotent."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._stop_pinging()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for keeper in self._keepers.values():
            keeper.state = "down"
            keeper.link.close()
        for ring in self._rings.values():
            ring.close()

    # ---- parts

    def _create_rings(self) -> None:
        sizes = self._deploy.connectors
        capacities = {
            "talker_commands": sizes.commands.capacity_bytes,
            "codec_commands": sizes.commands.capacity_bytes,
            "codes": sizes.codes.capacity_bytes,
            "talker_replies": sizes.events.capacity_bytes,
            "codec_replies": sizes.audio.capacity_bytes,
        }
        for name, capacity in capacities.items():
            self._rings[name] = Ring.create(capacity, name)

    def _keeper(self, stage: StageName, on_message: OnMessage) -> Keeper:
        options = getattr(self._deploy.stages, stage)
        limits = replace(self._limits, ready_s=options.start_timeout_s)
        if options.memory_limit_mib is not None:
            limits = replace(limits, memory_bytes=options.memory_limit_mib << 20)
        keeper = Keeper(stage, lambda: self._spawn(stage), limits, on_message, self._entered)
        keeper.link = Link(self._rings[f"{stage}_commands"], self._rings[f"{stage}_replies"], keeper.receive)
        return keeper

    async def _spawn(self, stage: StageName) -> Child:
        life = os.pipe()
        config = StageConfig(
            stage=stage,
            build=self._builders[stage],
            deploy=self._deploy,
            commands=self._rings[f"{stage}_commands"].fds,
            replies=self._rings[f"{stage}_replies"].fds,
            codes=self._rings["codes"].fds,
            life=life[0],
            log_level=logging.getLogger(__package__).getEffectiveLevel(),
        )
        return await Child.start(config, life)

    def _entered(self, stage: StageName, state: StageState) -> None:
        """The one place where a stage's end and return are seen: tells the other stage, then the owner."""
        if state != "starting":
            self._keepers[_OTHER[stage]].send(Peer(stage=stage, up=state == "ready"))
        self._on_state(stage, state)

    # ---- pings

    def _ping(self) -> None:
        self._pinging = asyncio.get_running_loop().call_later(self._limits.ping_s, self._ping)
        for stage, keeper in self._keepers.items():
            keeper.ping()
            if self.health(stage).stalled != self._stalled[stage]:
                self._stalled[stage] = not self._stalled[stage]
                log.warning("%s stage %s", stage, "does not answer" if self._stalled[stage] else "answers again")
                self._on_state(stage, keeper.state)

    def _stop_pinging(self) -> None:
        if self._pinging is not None:
            self._pinging.cancel()
            self._pinging = None
