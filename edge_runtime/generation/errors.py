"""What goes wrong below the level of a request; a caller meets it as an event or as a runtime that failed to start."""


class GraphRunFailed(Exception):
    """A run of the graph ended with an error. The message is ONNX Runtime's and may be long."""


class GraphInterrupted(GraphRunFailed):
    """A run was told to end, since the engine stops."""
