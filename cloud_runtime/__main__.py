"""`python -m cloud_runtime`: serve one large model, on a GPU where there is one."""

from __future__ import annotations

import sys

from cloud_runtime.engines.embedding_loading import load_embedding_model
from cloud_runtime.engines.loading import EngineSettings
from cloud_runtime.engines.transformers import TransformersEngine
from runtime_server import serving
from runtime_server.options import RuntimeOptions, argument_parser, at_least

_PORT = 8090


def main() -> int:
    """Run until a signal; return the process's exit status."""
    parser = argument_parser("python -m cloud_runtime", __doc__ or "", default_port=_PORT)
    cloud = parser.add_argument_group("the engine")
    cloud.add_argument(
        "--threads", type=at_least(1), metavar="N", help="threads of one run on the CPU (default: its CPUs but one)"
    )
    arguments = parser.parse_args()
    options = RuntimeOptions.from_arguments(arguments)
    settings = EngineSettings(
        folder=options.model_dir,
        model_name=options.model_name,
        waiting_limit=options.waiting_limit,
        threads=arguments.threads,
        trusted_keys=options.trusted_keys,
    )
    return serving.run("cloud_runtime", lambda _: TransformersEngine(settings), options, load_embedding_model)


if __name__ == "__main__":
    sys.exit(main())
