"""Which shared libraries this process has loaded."""

from pathlib import Path


def loaded_libraries(prefix: str) -> list[str]:
    """Paths of the loaded libraries whose file names begin with `prefix`, like "libmpi"."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    paths = (line.split(maxsplit=5)[5] for line in lines if line.count(" ") >= 5 and "/" in line)
    return list(dict.fromkeys(path for path in paths if Path(path).name.startswith(prefix) and ".so" in path))
