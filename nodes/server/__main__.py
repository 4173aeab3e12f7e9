"""``python3 -m nodes.server``."""

import sys

from nodes.server.main import main

sys.exit(main())
