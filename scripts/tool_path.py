"""Print the path of a tool: the one in this environment's scripts, else the one in PATH."""

import os
import shutil
import sys
import sysconfig

name = sys.argv[1]
found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name, path=os.environ.get("PATH"))
if not found:
    sys.exit(f"{name} is missing: {sys.executable} -m pip install {name}")
print(found)
