"""Print, as a CMake list, what the shims need to know of this Python and of torch.

describe_torch.py              for the torch that this Python imports
describe_torch.py FOLDER       for every FOLDER/<version>/torch/include (scripts/torch_headers.py)

Extension suffix; Python include path; then for each torch: minor version; library path; include path.
"""

import os
import sys
import sysconfig
from pathlib import Path


def installed_torch() -> list[str]:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # an older installation of ours has no say in this build
    try:
        import torch
    except ImportError as error:
        sys.exit(f"{sys.executable} cannot import torch ({error}): install it there and give pip --no-build-isolation")
    folder = Path(torch.__file__).parent
    return [minor(torch.__version__), str(folder / "lib"), str(folder / "include")]


def torch_headers(folder: Path) -> list[str]:
    facts = []
    for include in sorted(folder.glob("*/torch/include")):
        facts += [minor(include.parents[1].name), str(include.parent / "lib"), str(include)]
    return facts or sys.exit(f"no */torch/include in {folder}")


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


facts = torch_headers(Path(sys.argv[1])) if len(sys.argv) > 1 else installed_torch()
sys.stdout.write(";".join([sysconfig.get_config_var("EXT_SUFFIX"), sysconfig.get_path("include"), *facts]))
