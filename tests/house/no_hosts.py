"""Fails when a tracked file names the host of a package registry; locks must work against any."""

import re
import subprocess
import sys
from pathlib import Path

REGISTRY = re.compile(
    r"https?://[^\s\"']*(pypi|pythonhosted|npmjs|registry|simple/)|--(extra-)?index-url|--trusted-host"
)
OWN = {Path("tests/house/no_hosts.py"), Path("Makefile")}


def main() -> int:
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=True,
    )
    found = 0
    for name in filter(None, names.stdout.decode().split("\0")):
        path = Path(name)
        if path in OWN or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if REGISTRY.search(line):
                print(f"{path}:{number}: names a package registry: {line.strip()[:100]}")
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
