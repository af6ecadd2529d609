#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
sed -n 's/^page of note [0-9]*: //p' notes/*.txt >index.txt
