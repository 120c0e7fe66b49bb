"""What each key may have: utterances at the same time, and characters a minute. Pure but for the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from talkwire_pipeline.deploy.server import Quota, Quotas
from talkwire_pipeline.errors import ResourceExhaustedError

RETRY_S = 1.0
"""When a place may be free again: nobody knows."""


@dataclass
class _Account:
    """What a key uses now.

    Attributes:
        live: utterances.
        spent: characters of the last minute, as far as they have not come back.
        at_s: when that was so.
    """

    live: int = 0
    spent: float = 0.0
    at_s: float = 0.0

    def flow_back(self, limit: int, now_s: float) -> None:
        """A minute's characters come back in a minute, evenly."""
        self.spent = max(self.spent - (now_s - self.at_s) * limit / 60, 0.0)
        self.at_s = now_s


class Ledger:
    """Accounts of all keys; callers without one share the account of the empty key.

    Errors are `ResourceExhaustedError` with reason QUOTA, which say what the key may have and when to come back.
    """

    def __init__(self, quotas: Quotas, clock: Callable[[], float] = time.monotonic) -> None:
        self._quotas = quotas
        self._clock = clock
        self._accounts: dict[str, _Account] = {}

    def __len__(self) -> int:
        """Keys that use something now."""
        return len(self._accounts)

    def of(self, key: str) -> Quota:
        """What a key may have."""
        return self._quotas.keys.get(key, self._quotas.default)

    def enter(self, key: str) -> None:
        """One more utterance of the key. Raises where it has all that it may have."""
        account, limit = self._account(key), self.of(key).live_utterances
        if limit is not None and account.live >= limit:
            raise _over(key, f"{account.live} utterances are live", "live_utterances", limit, RETRY_S)
        account.live += 1

    def leave(self, key: str) -> None:
        """One utterance less."""
        account = self._account(key)
        account.live -= 1
        self._forget_if_idle(key, account)

    def check(self, key: str, characters: int) -> None:
        """Raises where so many characters more are too many now."""
        limit = self.of(key).characters_per_minute
        if limit is None:
            return
        missing = self._account(key).spent + characters - limit
        if missing > 0:
            what = f"{characters} characters are too many now" if characters <= limit else f"{characters} characters"
            raise _over(key, what, "characters_per_minute", limit, max(missing * 60 / limit, 0.1))

    def spend(self, key: str, characters: int) -> None:
        """So many characters were taken."""
        if self.of(key).characters_per_minute is not None:
            self._account(key).spent += characters

    def _account(self, key: str) -> _Account:
        now_s = self._clock()
        account = self._accounts.setdefault(key, _Account(at_s=now_s))
        account.flow_back(self.of(key).characters_per_minute or 0, now_s)
        return account

    def _forget_if_idle(self, key: str, account: _Account) -> None:
        if not account.live and not account.spent:
            del self._accounts[key]


def _over(key: str, what: str, name: str, limit: int, retry_after_s: float) -> ResourceExhaustedError:
    text = f"quota of {key or 'callers without a key'}: {what}, {name} is {limit}"
    return ResourceExhaustedError(text, reason="QUOTA", retry_after_s=retry_after_s)
