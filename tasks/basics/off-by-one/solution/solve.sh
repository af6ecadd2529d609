#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
python3 - <<'PYTHON'
from pathlib import Path

REPAIRS = {
    "return total // per_page + 1": "return max(1, (total + per_page - 1) // per_page)",
    "return item // per_page + 1": "return (item - 1) // per_page + 1",
    "last=min(first + per_page, total),": "last=min(first + per_page - 1, total),",
}
module = Path("pager.py")
text = module.read_text(encoding="utf-8")
for wrong, right in REPAIRS.items():
    assert text.count(wrong) == 1, wrong
    text = text.replace(wrong, right)
module.write_text(text, encoding="utf-8")
PYTHON
