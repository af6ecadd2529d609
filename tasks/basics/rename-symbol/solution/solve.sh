#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
python3 - <<'PYTHON'
import io, pathlib, tokenize
for path in pathlib.Path("shop").glob("*.py"):
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    found = [
        token.start
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.NAME and token.string == "route"
    ]
    for row, column in reversed(found):
        line = lines[row - 1]
        lines[row - 1] = line[:column] + "choose_road" + line[column + len("route"):]
    path.write_text("".join(lines), encoding="utf-8")
PYTHON
