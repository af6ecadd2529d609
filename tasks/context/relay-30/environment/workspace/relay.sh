#!/bin/bash
# Asks a station. It answers once.
station="stations/${1:?usage: bash relay.sh PASSWORD}.b64"
if [[ ! -f $station ]]; then
    printf 'no station answers to %s (any more)\n' "$1"
    exit 1
fi
base64 -d "$station" && rm "$station"
