#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
mkdir -p notices
printf '%s\n' 'Mañana 06:15: database read-only' 'Back at 07:40 - thanks!' >notices/maintenance.txt
