"""``python3 -m kraftwreck.nodes.server``."""

import sys

from kraftwreck.nodes.server.main import main

sys.exit(main())
