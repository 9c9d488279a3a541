"""A page in a real browser, for the tests that look at one.

Screenshots go to the directory that RECOMPACT_SCREENSHOTS names, or to a scratch directory.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
PHONE, DESKTOP = 360, 1280
UNFOLD = "document.querySelectorAll('details').forEach(d => d.open = true)"


@dataclass
class Browser:
    """A page in a browser, at a width and in a colour scheme."""

    driver: Any
    url: str
    shots: Path
    name: str = "report"

    def show(self, width: int = DESKTOP, *, dark: bool = False, media: str = "") -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})
        self.driver.get(self.url)

    def requests(self) -> list[str]:
        """What was asked for since the last look, but for what the browser fills its own start page from."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("data:", "chrome://"))]

    def sticking_out(self) -> list[str]:
        """What reaches beyond the page, but for what does so inside a region that scrolls and can be focused."""
        found = self.ask(
            """return [...document.querySelectorAll('main *')].filter(e =>
            e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll'))
            .map(e => e.outerHTML.slice(0, 90))"""
        )
        return list(found)

    def ask(self, script: str, *arguments: object) -> Any:
        """Scripts of the test run in the page; those of the page itself must not."""
        return self.driver.execute_script(script, *arguments)

    def shoot(self, name: str, whole: bool = False) -> Path:
        more: dict[str, Any] = {}
        if whole:
            width, height = self.ask("return [innerWidth, document.documentElement.scrollHeight]")
            clip = {"x": 0, "y": 0, "width": width, "height": min(height, 16000), "scale": 1}
            more = {"captureBeyondViewport": True, "clip": clip}
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", **more})
        self.shots.mkdir(parents=True, exist_ok=True)
        path = self.shots / f"{self.name}-{name}.png"
        path.write_bytes(base64.b64decode(taken["data"]))
        return path


@contextmanager
def open_browser(page: Path | str, scratch: Path, name: str = "report") -> Iterator[Browser]:
    """A browser of its own, with a fresh profile, for a file or an address."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = str(BROWSER)
    switches = "headless=new no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    for switch in (*switches.split(" "), "disable-component-update", "disable-sync", "hide-scrollbars"):
        options.add_argument(f"--{switch}")
    options.add_argument(f"--user-data-dir={scratch / 'profile'}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    shots = Path(os.environ.get("RECOMPACT_SCREENSHOTS") or scratch / "screenshots")
    try:
        yield Browser(driver, page.as_uri() if isinstance(page, Path) else page, shots, name)
    finally:
        driver.quit()


COLOURS = """
const transparent = 'rgba(0, 0, 0, 0)';
function behind(e) {
  for (; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if (colour !== transparent) return colour;
  }
  return 'rgb(255, 255, 255)';
}
const found = {};
for (const e of document.querySelectorAll('body *')) {
  if (e.closest('svg') || !e.offsetParent) continue;
  if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
  const pair = getComputedStyle(e).color + ' on ' + behind(e);
  found[pair] = found[pair] || e.outerHTML.slice(0, 80);
}
return found;
"""


def assert_inert(browser: Browser, title: str) -> None:
    """Nothing on the page runs, nothing was fetched but the page, and its title is the one that we gave it."""
    assert browser.driver.title == title
    assert browser.ask("return document.scripts.length") == 0
    assert browser.ask("return document.querySelectorAll('img, iframe, object, embed, form, base').length") == 0
    handlers = (
        "return [...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on')))"
    )
    assert browser.ask(f"{handlers}.length") == 0
    assert browser.driver.get_log("browser") == []
    assert browser.requests() == [browser.url]


def contrast(pair: str) -> float:
    """The contrast of two colours as the accessibility guidelines define it."""

    def luminance(colour: str) -> float:
        parts = [int(n) / 255 for n in re.findall(r"\d+", colour)[:3]]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    text, ground = map(luminance, pair.split(" on "))
    return (max(text, ground) + 0.05) / (min(text, ground) + 0.05)
