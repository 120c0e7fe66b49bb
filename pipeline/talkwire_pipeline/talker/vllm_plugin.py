"""What vLLM finds of us by its entry point `vllm.general_plugins`: the checkpoint's configuration and the model's name.

vLLM calls `register` in each of its processes, some of them more than once.
"""

from __future__ import annotations

ARCHITECTURE = "HiggsMultimodalQwen3ForConditionalGeneration"
"""What a checkpoint's config.json says under `architectures`."""
NAME = "talkwire"
"""Our entry in `vllm.general_plugins`; `VLLM_PLUGINS` restricts vLLM to it."""
_MODEL = "talkwire_pipeline.talker.vllm_model:TalkerModel"


def register() -> None:
    """Makes the talker known to vLLM. The model is named, not imported: vLLM looks into it in a process of its own."""
    from transformers import AutoConfig
    from vllm.model_executor.models.registry import ModelRegistry

    from talkwire_pipeline.talker.vllm_config import HiggsConfig

    AutoConfig.register(HiggsConfig.model_type, HiggsConfig, exist_ok=True)
    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, _MODEL)
