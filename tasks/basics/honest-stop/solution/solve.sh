#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
printf 'Clauses 2.2 and 12.7 cannot both hold.\n' >BLOCKED.md
