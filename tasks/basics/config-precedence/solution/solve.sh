#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
cat >settings.py <<'PYTHON'
def resolve(defaults, file, environment, flags):
    for source in (file, flags):
        for key in source:
            if key not in defaults:
                raise KeyError(key)
    result = {}
    for key, default in defaults.items():
        value = default if file.get(key) is None else file[key]
        text = environment.get("YARD_" + key.upper(), "")
        if text != "":
            if isinstance(default, bool):
                value = text.lower() in ("1", "true", "yes")
            elif isinstance(default, int):
                try:
                    value = int(text)
                except ValueError:
                    pass
            else:
                value = text
        result[key] = value if flags.get(key) is None else flags[key]
    return result
PYTHON
