"""The demo voice: a folder of data. It holds no code."""

from pathlib import Path

PATH = Path(__file__).parent
"""The folder of the checkpoint."""
