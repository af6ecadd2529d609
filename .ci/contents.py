"""Checks that the sdist and the wheel in a folder hold the whole package and nothing else."""

import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
BESIDE = {"PKG-INFO", "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", ".gitignore"}

folder = Path(sys.argv[1])
(wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
package = {
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "chimera").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
}
needed = {
    "chimera/py.typed",
    "chimera/cli/demo_files/script.yaml",
    "chimera/cli/demo_files/shop/gitignore.txt",
}
missing = needed - package
assert not missing, f"gone from the package: {sorted(missing)}"

with zipfile.ZipFile(wheel) as archive:
    in_wheel = {name for name in archive.namelist() if ".dist-info/" not in name}
assert in_wheel == package, f"the wheel differs in: {sorted(in_wheel ^ package)}"

with tarfile.open(sdist) as archive:
    in_sdist = {m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()}
assert in_sdist == package | BESIDE, f"the sdist differs in: {sorted(in_sdist ^ (package | BESIDE))}"
