"""KServe's own client asks for 32 ms of silence to be judged, as JSON and as bytes: `kserve_client.py URL`.

It runs in an environment that has `kserve`, which is none of ours: it brings sixty packages along.
"""

import asyncio
import importlib
import sys

import numpy as np

SILENCE = {
    "input": (np.zeros((1, 576), np.float32), "FP32"),
    "state": (np.zeros((2, 1, 128), np.float32), "FP32"),
    "sr": (np.array(16000), "INT64"),
}


async def main(url: str) -> None:
    kserve = importlib.import_module("kserve")
    client = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2", timeout=60))
    assert await client.is_server_live(url)
    assert await client.is_server_ready(url)
    assert await client.is_model_ready(url, "silero-vad")
    for binary in (False, True):
        inputs = []
        for name, (values, kind) in SILENCE.items():
            inputs.append(kserve.InferInput(name, list(values.shape), kind))
            inputs[-1].set_data_from_numpy(values, binary_data=binary)
        request = kserve.InferRequest(model_name="silero-vad", infer_inputs=inputs)
        answer = await client.infer(url, request, model_name="silero-vad")
        shapes = {output.name: output.as_numpy().shape for output in answer.outputs}
        assert shapes == {"output": (1, 1), "stateN": (2, 1, 128)}
    await client.close()


asyncio.run(main(sys.argv[1]))
