"""The small model's server on ONNX Runtime.

ONNX Runtime writes a device id to the home folder and queues telemetry on import unless this variable is set before
the first import, so it is set here, where no import of ours can come earlier.
"""

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
