"""Makes models that embed: the graph is constructed from the published weights, so that nothing has to be traced."""
