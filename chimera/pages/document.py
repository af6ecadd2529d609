"""The frame of a page: no scripts, no fonts, no network, and text that is never taken for markup."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Sequence, Set
from html import escape
from pathlib import Path

from chimera.errors import ConfigError
from chimera.workspace.terminal_text import escaped

PALETTE = """
:root{color-scheme:light dark;--ink:#1c2128;--soft:#57606a;--page:#fff;--card:#f6f8fa;--line:#d0d7de;--bad:#b3261e;
--good:#176f2c;--c0:#0b62b8;--c1:#b8500b;--c2:#1a7f37;--c3:#8250df;--c4:#0a7a83;--c5:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa5b1;--page:#0d1117;--card:#161b22;--line:#30363d;
--bad:#ff8d84;--good:#6fdd8b;--c0:#6cb6ff;--c1:#ffab70;--c2:#6fdd8b;--c3:#d2a8ff;--c4:#5fd4de;--c5:#ff8d84}}
"""
"""The colours of pages and pictures, light and dark."""
PLOT_STYLE = """
.plot text{font:13px system-ui,sans-serif;fill:var(--soft)}.plot .axis,.plot .tip{fill:var(--ink)}
.grid{stroke:var(--line);stroke-width:1;fill:none}.line{fill:none;stroke:currentColor;stroke-width:2}
.whisker{fill:none;stroke:currentColor;stroke-width:1.5;opacity:.55}.dot,.key{fill:currentColor}.part{fill:currentColor}
.s0{color:var(--c0)}.s1{color:var(--c1)}.s2{color:var(--c2)}.s3{color:var(--c3)}.s4{color:var(--c4)}.s5{color:var(--c5)}
.tip{visibility:hidden}.mark:hover .tip,.mark:focus .tip{visibility:visible}
.mark{outline:none;cursor:default}.mark:focus-visible .dot>*,.mark:focus-visible .part,.mark:hover .dot>*{stroke:var(--ink);
stroke-width:2.5}
"""
"""Rules of plots."""
_STYLE = (
    PALETTE
    + """
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem clamp(.9rem,3vw,2.5rem);max-width:84rem;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;line-height:1.25;margin:.2rem 0 1rem;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:2.2rem 0 .7rem}h3{font-size:1rem;margin:0 0 .4rem}summary h2,summary h3,summary h4{display:inline}
.wide{overflow-x:auto;border:1px solid var(--line);border-radius:.5rem}
table{border-collapse:collapse;width:100%;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line);vertical-align:top}
tbody tr:last-child>*{border-bottom:0}thead th{background:var(--card);font-weight:600;color:var(--soft)}
th:first-child,td:first-child,.text{text-align:left}td.text:last-child{white-space:normal;min-width:6rem;overflow-wrap:anywhere}
.plots{margin-top:.7rem;display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr));gap:1rem}
figure.bars{max-width:32rem}details{margin-top:1.6rem}figure{margin:0;padding:1rem;background:var(--card);border:1px solid var(--line);border-radius:.5rem}
.plot{display:block;width:100%;height:auto;overflow:visible}
.key{width:.9em;height:.9em;vertical-align:-.08em;margin-right:.35em}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;padding:0;margin:.5rem 0 0;font-size:.875rem}
.legend li{overflow-wrap:anywhere}
.swatch{display:inline-block;width:.8em;height:.8em;border-radius:2px;background:currentColor;margin-right:.4em}
.remarks{color:var(--soft);padding-left:1.2rem;font-size:.9375rem}
.good{color:var(--good)}.bad{color:var(--bad)}.soft{color:var(--soft)}
summary{cursor:pointer;padding:.35rem 0}:focus-visible{outline:2px solid var(--c0);outline-offset:2px}
a{color:var(--c0)}a.skip{position:absolute;left:-99rem}a.skip:focus{left:1rem;top:.5rem;background:var(--page);padding:.4rem}
"""
    + PLOT_STYLE
)


def plain(value: object) -> str:
    """Any text as HTML that shows it: no markup, no control, bidirectional or invisible characters."""
    return escape(escaped(str(value)))


def document(title: str, body: str, *, skip: tuple[str, str], style: str = "") -> str:
    """A whole page.

    Args:
        title: plain text.
        body: the content of `main`, HTML already.
        skip: id of what most readers want, and the words of the link that leads there.
        style: rules of this page beside the common ones. No `style` attribute has any effect.
    """
    rules = _STYLE + style
    digest = b64encode(hashlib.sha256(rules.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    target, words = skip
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{plain(title)}</title><style>{rules}</style></head><body>"
        f'<a class="skip" href="#{target}">{words}</a>'
        f"<header><h1>{plain(title)}</h1></header><main>{body}</main></body></html>\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: Set[int], label: str = "table") -> str:
    """A table that can be scrolled by keyboard where it is too wide.

    Args:
        head: plain text.
        rows: cells that are HTML already.
        left: columns of words rather than numbers.
        label: what a screen reader calls it.
    """

    def line(tag: str, values: Sequence[str]) -> str:
        kinds = ["text" if n in left else "" for n in range(len(values))]
        scope = " scope=col" if tag == "th" else ""
        return "".join(
            f'<{tag}{scope} class="{kind}">{value}</{tag}>' for kind, value in zip(kinds, values, strict=True)
        )

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{plain(label)}">'
        f"<table><thead><tr>{line('th', [plain(name) for name in head])}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def write_document(path: Path, content: str) -> None:
    """Write a page to a file.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as fault:
        raise ConfigError(f"the page cannot be written to {str(path)!r}: {fault.strerror}") from fault
