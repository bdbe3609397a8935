"""Makes the default models. Nothing here runs while a model is served; its tools are the extra `build`."""
