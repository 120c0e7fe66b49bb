"""From parsed arguments to the settings of an utterance."""

from __future__ import annotations

import argparse
from typing import cast

from talkwire.options import Options


def speech_options(arguments: argparse.Namespace) -> Options:
    """The settings that were given; everything else is left to the deployment."""
    given = {key: value for key, value in vars(arguments).items() if key in Options.__annotations__}
    return cast(Options, {key: value for key, value in given.items() if value is not None})
