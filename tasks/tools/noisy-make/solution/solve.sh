#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
error=$(python3 build.py | sed -n 's/^error: //p')
read -r path _ old _ _ _ _ new <<<"$error"
sed -i "/^needs: /s/${old%,}/$new/" "$path"
python3 build.py >/dev/null
