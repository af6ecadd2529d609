#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
password=ochre-lapwing-279
: >manifest.txt
for number in $(seq 30); do
    answer=$(bash relay.sh "$password")
    sed -n 's/^manifest line [0-9]*: //p' <<<"$answer" >>manifest.txt
    password=$(sed -n 's/^password of station [0-9]*: //p' <<<"$answer")
done
