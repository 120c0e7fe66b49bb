"""The server's figures.

`front` counts and measures in this process, `stages` shows what the stages say of themselves.
"""

from talkwire_server.metrics.front import Described, Metrics

__all__ = ["Described", "Metrics"]
