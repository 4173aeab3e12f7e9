"""Run a node: ``python3 -m kraftwreck.nodes``, and the entry point of the deployed zip."""

import sys

from kraftwreck.nodes.server.main import main

sys.exit(main())
