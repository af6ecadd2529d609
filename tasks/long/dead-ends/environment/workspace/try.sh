#!/bin/bash
# Does an experiment: bash try.sh NAME CODE. `experiments.log` tells which were done.
experiment="lab/${1:?usage: bash try.sh NAME CODE}-${2:?usage: bash try.sh NAME CODE}.b64"
if [[ ! -f $experiment ]]; then
    printf 'the code of %s is not %s\n' "$1" "$2"
    exit 1
fi
touch experiments.log
if (($(wc -l <experiments.log) >= 9)); then
    printf 'no time is left for experiments\n'
    exit 1
fi
printf '%s\n' "$1" >>experiments.log
base64 -d "$experiment"
