"""The large model's server: an `Engine` on torch (or, on a GPU pool, vLLM) behind `runtime_server`.

Hugging Face's libraries look for files on their hub and report their use unless told not to. That is said here, before
anything can import them: a model is a folder on this machine, or it is not there.
"""

import os

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}
