"""The store of models: the one way by which a folder becomes a model that can be served.

    models/
      <name> -> .versions/<name>/<id>       the active version: a relative link, switched by one rename
      .versions/<name>/<id>/                a version: its files, manifest.json, signatures.json, origin.json
      .versions/<name>/earlier.json         ids that were active before, oldest first
      .building/  .downloads/  .trash/      what is being made, fetched, thrown away; swept when its owner is gone

An id is the sha256 of the version's `manifest.json`. A version is never changed once it stands, but for who signed it.

    store = ModelStore(root)                # keys stand beside `root`, in keys/models
    store.names()                           # those that have a version
    store.versions(name)                    # oldest first; `.active` says which one is served
    store.active(name)                      # a Version, or None
    store.find("name@1f3a")                 # a Version by the beginning of its id; without @ the active one
    store.publish(staged)                   # a complete folder becomes a version; nothing is served by that
    store.activate(version)                 # verified, its signature checked, switched
    store.rollback(name)                    # back to the one before; returns it
    store.remove(version)                   # refused while it is active or leased
    store.lease(name)                       # a ModelLease: `.folder` stays until `.release()`
"""
