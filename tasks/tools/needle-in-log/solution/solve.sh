#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
trace=$(sed -n 's/^.* service stopped after trace=//p' service.log)
line=$(grep "trace=$trace limit exceeded" service.log)
name=$(sed 's/^.*exceeded: //; s/,.*//' <<<"$line")
wanted=$(sed 's/^.*, //; s/ wanted//' <<<"$line")
sed -i "s/^$name = .*/$name = $wanted/" limits.conf
printf '%s\n' "$trace" >trace.txt
