"""Print, as a CMake list, what the shim needs to know of this Python and its torch.

torch minor; extension suffix; Python include path; torch library path; torch include paths...
"""

import os
import sys
import sysconfig

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # an older installation of ours has no say in this build

try:
    import torch
    from torch.utils.cpp_extension import include_paths
except ImportError as error:
    sys.exit(f"torch cannot be imported by {sys.executable} ({error}): install torch there, or configure with -DCUSTOMCCL_TORCH=OFF")

minor = ".".join(torch.__version__.split(".")[:2])
library = os.path.join(os.path.dirname(torch.__file__), "lib")
facts = [minor, sysconfig.get_config_var("EXT_SUFFIX"), sysconfig.get_path("include"), library, *include_paths()]
sys.stdout.write(";".join(facts))
