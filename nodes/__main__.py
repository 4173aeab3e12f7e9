"""``python3 -m nodes``, and the entry point of the zip that is deployed."""

import sys

from nodes.server.main import main

sys.exit(main())
