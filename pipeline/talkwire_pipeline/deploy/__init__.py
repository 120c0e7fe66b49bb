"""Deploy files: what runs, with which shape, on which machine. Needs no torch."""

from talkwire_pipeline.deploy.load import load
from talkwire_pipeline.deploy.schema import Deploy

__all__ = ["Deploy", "load"]
