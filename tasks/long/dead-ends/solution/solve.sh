#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
mkdir -p findings
for name in routes locks cache clock quota paging proxy codec; do
    code=$(sed -n "s/^code of $name: //p" "causes/$name.txt")
    said=$(bash try.sh "$name" "$code")
    reading=$(sed -n "s/^reading of $name: //p" <<<"$said")
    verdict=$(sed -n "s/^verdict of $name: //p" <<<"$said")
    printf '%s %s\n' "$reading" "$verdict" >"findings/$name.txt"
    if [[ $verdict == confirmed ]]; then
        cure=$(sed -n "s/^cure of $name: //p" <<<"$said")
        sed -i "s|^$name = .*|$name = $cure|" settings.conf
        break
    fi
done
