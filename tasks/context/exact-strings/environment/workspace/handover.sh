#!/bin/bash
# Hands the values over. Once.
if [[ ! -f .handover.b64 ]]; then
    printf 'the handover is over\n'
    exit 1
fi
base64 -d .handover.b64 && rm .handover.b64
