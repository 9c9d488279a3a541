"""What mkdocs calls while it builds the site: adds the generated pages and refuses a site that is not whole."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
import pages

OUTSIDE = re.compile(rb"""<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=["']?(https?:)?//[^"'\s>]+""")
_texts: dict[str, str] = {}  # page -> its Markdown as it is on the site, for llms.txt


def on_files(files: Files, config: MkDocsConfig) -> Files:
    if lacking := pages.undocumented_names():
        raise PluginError(f"public names without a docstring: {', '.join(lacking)}")
    for name in pages.API:
        files.append(File.generated(config, f"reference/api/{name}.md", content=pages.api_page(name)))
    files.append(File.generated(config, "reference/cli.md", content=pages.command_page()))
    files.append(File.generated(config, "reference/config.md", content=pages.config_page()))
    for path in pages.linked_files():
        files.append(File.generated(config, pages.site_path(path), abs_src_path=str(pages.ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    text = pages.rewrite_links(markdown, pages.repository_path(page.file.src_uri))
    _texts[page.file.src_uri] = text
    return text


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    config.extra["sections"] = [(item.title, [page.file for page in _pages_of(item)]) for item in nav.items]
    return nav


def _pages_of(item: Any) -> list[Page]:
    return [item] if isinstance(item, Page) else [page for child in item.children or [] for page in _pages_of(child)]


def on_post_build(config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    lines = ["# Recompact", "", f"> {config.site_description}", ""]
    for title, files in config.extra["sections"]:
        lines += [f"## {title}", ""]
        for file in files:
            text = _texts[file.src_uri]
            twin = site / file.src_uri
            twin.parent.mkdir(parents=True, exist_ok=True)
            twin.write_text(text, encoding="utf-8")
            name, gain = pages.opening(text)
            lines.append(f"- [{name}]({file.src_uri}): {gain}")
        lines.append("")
    (site / "llms.txt").write_text("\n".join(lines), encoding="utf-8")
    if wrong := [found for path in site.rglob("*.html") for found in _outside(path, site)]:
        raise PluginError("pages load from elsewhere:\n" + "\n".join(wrong))


def _outside(path: Path, site: Path) -> list[str]:
    tags = [match[0].decode() for match in OUTSIDE.finditer(path.read_bytes())]
    return [f"{path.relative_to(site)}: {tag}" for tag in tags if 'rel="canonical"' not in tag]
