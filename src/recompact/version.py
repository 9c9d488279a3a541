"""The version of Recompact, which run files and results record, and how more of it is installed."""

from __future__ import annotations

__version__ = "0.1.0"


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation, from wherever it came: a clone, a wheel or an index."""
    import json
    import shlex
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        origin = json.loads(distribution("recompact").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):  # run from its sources
        return f"pip install '.[{extra}]' in a clone of recompact"
    url = origin.get("url", "")
    if "vcs_info" in origin:
        return f"pip install 'recompact[{extra}] @ {origin['vcs_info']['vcs']}+{url}'"
    if url.startswith("file:"):
        editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
        place = f"{unquote(urlsplit(url).path)}[{extra}]"
        return f"pip install {editable}{shlex.quote(place)}"
    return f"pip install 'recompact[{extra}]'"
