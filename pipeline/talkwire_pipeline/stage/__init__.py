"""A stage: one process, one loop. `python -m talkwire_pipeline.stage NAME` is how one is started."""
