"""Which model is in memory, and when: loaded, exchanged for another version, unloaded, loaded again.

memory     what a model will take, and what is left here
resident   one version of a model, in memory or not
pending    a request whose model is still being loaded
engine     the engine that requests go to: it owns the versions, and watches which one is active
"""
