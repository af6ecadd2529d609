#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
header=$(sed -n 's/^header line: //p' RULES.md)
for file in src/*.cfg; do
    grep -q '^frozen: yes' "$file" || { printf '%s\n' "$header"; cat "$file"; } >"$file.new"
    if [[ -s $file.new ]]; then mv "$file.new" "$file"; else rm -f "$file.new"; fi
done
mkdir -p "$(dirname overrides/amounts-81.cfg)"
printf '%s\n' 'sums_style=half-even' >overrides/amounts-81.cfg
