#!/bin/bash
# Prints the codes. Once.
if [[ ! -f .codes ]]; then
    printf 'the codes were given out already\n'
    exit 1
fi
cat .codes && rm .codes
