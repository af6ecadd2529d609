#!/bin/bash
# Prints the order in force.
shopt -s nullglob
written=(labels/*.txt)
number=1
if ((${#written[@]} >= 20)); then number=2; fi
base64 -d "orders/$number.b64"
