"""Print, as a CMake list, what the shim needs to know of this Python and its torch.

torch minor; extension suffix; Python include path; torch library path; torch include paths...
"""

import os
import sys
import sysconfig
from pathlib import Path

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # an older installation of ours has no say in this build

try:
    import torch
    from torch.utils.cpp_extension import include_paths
except ImportError as error:
    sys.exit(f"{sys.executable} cannot import torch ({error}): install it there and give pip --no-build-isolation")

minor = ".".join(torch.__version__.split(".")[:2])
library = str(Path(torch.__file__).parent / "lib")
facts = [minor, sysconfig.get_config_var("EXT_SUFFIX"), sysconfig.get_path("include"), library, *include_paths()]
sys.stdout.write(";".join(facts))
