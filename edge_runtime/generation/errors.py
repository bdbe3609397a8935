"""What goes wrong below the level of a request; a caller meets it as an event or as a runtime that failed to start."""


class ModelUnsupported(Exception):
    """The model folder is whole, but not one that this engine can run. The message says why."""


class GraphRunFailed(Exception):
    """A run of the graph ended with an error. The message is ONNX Runtime's and may be long."""
