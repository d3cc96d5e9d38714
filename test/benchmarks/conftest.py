"""The benchmark is no installed package: it is run from the root of the tree, and so imported from there."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
