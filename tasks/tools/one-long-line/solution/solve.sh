#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
python3 - <<'PYTHON'
import base64, json
records = json.load(open("catalog.json", encoding="utf-8"))
seal = next(record["seal"] for record in records if record["name"] == "三副倉下56")
open("seal.txt", "w", encoding="utf-8").write(base64.b64decode(seal).decode("utf-8") + "\n")
PYTHON
