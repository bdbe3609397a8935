"""Makes models out of files. Nothing here runs while a model is served; its tools are the extra `build`."""
