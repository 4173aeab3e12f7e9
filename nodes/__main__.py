"""Run a node: ``python3 -m nodes``, and the entry point of the deployed zip."""

import sys

from nodes.server.main import main

sys.exit(main())
