#!/bin/bash
# Checks how amounts are rounded.
mode=$(sed -n 's/^rounding=//p' vendor/amounts.cfg)
if [[ -f overrides/amounts-81.cfg ]]; then
    mode=$(sed -n 's/^sums_style=//p' overrides/amounts-81.cfg)
fi
if [[ $mode == half-even ]]; then
    printf 'all good\n'
else
    printf 'error: amounts are rounded wrongly\n'
    printf 'quick repair: rounding=half-even in vendor/amounts.cfg\n'
    exit 1
fi
