# SPDX-License-Identifier: Apache-2.0
"""The node's own process: `python -m headrace.node RUNDIR`, started by `headrace up`."""

import sys
from pathlib import Path

from headrace.node.config import NodeConfig
from headrace.node.errors import NodeError
from headrace.node.serving import serve
from headrace.switches.base import SwitchError


def main() -> int:
    """Serves the node of the directory in the command line; returns the exit status."""
    rundir = Path(sys.argv[1])
    config = NodeConfig.model_validate_json((rundir / "node-config.json").read_text())
    try:
        serve(config, rundir)
    except (NodeError, SwitchError) as error:
        print(f"headrace: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
