"""The talker on vLLM, in the virtual environment that has it (`make test-vllm`).

`TALKWIRE_TEST_RUNNER` names the model runner. A CPU has no Triton, which v2 needs: here its kernels run in Triton's
interpreter, which is a proof of logic and nothing else.
"""

from __future__ import annotations

import os
import types

RUNNER = os.environ.get("TALKWIRE_TEST_RUNNER", "v1")

# Triton's attention multiplies float32 in tf32 otherwise, and rows would part in a draw.
os.environ["TRITON_F32_DEFAULT"] = "ieee"

if RUNNER == "v2" and os.environ.get("TALKWIRE_TEST_DEVICE", "cpu") == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"
    from triton import backends

    driver = types.SimpleNamespace(is_active=lambda: True)
    backends.backends.setdefault("cpu", types.SimpleNamespace(driver=driver, compiler=None))
