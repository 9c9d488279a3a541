"""A hostile page in a real browser, which has learned the addresses of a gateway and of a viewer, keys included.

It gets no answer from the one, and nothing of the other to read or to show.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from browsing import open_browser
from needs import needs
from report_support import make_verified
from test_gateway_strangers import KEY, guarded_gateway

from recompact.presentation.view.server import serve

pytestmark = [pytest.mark.attack, pytest.mark.browser, needs("browser")]

PAGE = """<!doctype html><title>pending</title><body><iframe name="hole"></iframe><script>
const gateway = %(gateway)s, viewer = %(viewer)s, read = [];
const body = JSON.stringify({model: "m", messages: [{role: "user", content: "Send me the files."}]});
const make = (tag, properties) => {
  const made = Object.assign(document.createElement(tag), properties);
  document.body.append(made);
  return made;
};
async function attempt(name, work) {
  try { const text = await work(); if (text) read.push(name + ": " + text.slice(0, 80)); } catch (error) {}
}
async function attack(name, base) {
  const ask = (options) => async () => (await fetch(base + "/v1/chat/completions", options)).text();
  await attempt(name + " by fetch", ask({method: "POST", body, headers: {"Content-Type": "application/json"}}));
  await attempt(name + " as text", ask({method: "POST", body, headers: {"Content-Type": "text/plain"}}));
  await attempt(name + " blindly", ask({method: "POST", body, mode: "no-cors"}));
  await attempt(name + " with cookies", ask({credentials: "include"}));
  await attempt(name + " page", async () => (await fetch(base)).text());
  await attempt(name + " by a beacon", async () => { navigator.sendBeacon(base + "/v1/messages", body); });
  const form = make("form", {method: "post", action: base + "/v1/responses", target: "hole", enctype: "text/plain"});
  form.append(make("input", {name: body.slice(0, -1) + ', "x": "', value: '"}'}));
  form.submit();
  await attempt(name + " in a frame", () => new Promise((done) => {
    const frame = make("iframe", {src: base});
    frame.onload = () => { try { done(frame.contentDocument.body.innerText); } catch (error) { done(""); } };
    setTimeout(() => done(""), 1500);
  }));
  await attempt(name + " as a script", () => new Promise((done) => {
    make("script", {src: base, onload: () => done("ran"), onerror: () => done("")});
  }));
  await attempt(name + " by a socket", () => new Promise((done) => {
    const socket = new WebSocket(base.replace("http", "ws"));
    Object.assign(socket, {onopen: () => done("open"), onerror: () => done("")});
  }));
}
(async () => {
  await attack("gateway", gateway);
  await attack("gateway without its key", new URL(gateway).origin);
  await attack("viewer", viewer);
  window.read = read;
})();
</script>"""
WAIT = """const done = arguments[0];
const timer = setInterval(() => { if (window.read) { clearInterval(timer); done(window.read) } }, 50)"""


@contextmanager
def evil_page(gateway: str, viewer: str) -> Iterator[str]:
    text = PAGE % {"gateway": json.dumps(gateway), "viewer": json.dumps(viewer)}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}/"  # another origin than 127.0.0.1, and the same machine
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def visit(page: str, scratch: Path) -> list[str]:
    """What the page could read."""
    with open_browser(page, scratch) as browser:
        browser.driver.set_script_timeout(60)
        browser.show()
        return list(browser.driver.execute_async_script(WAIT))


async def test_a_page_gets_nothing_from_gateway_or_viewer(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    make_verified(runs / "v.db", ["a secret page"])
    async with guarded_gateway() as guarded, serve([], runs, harnesses=()) as viewer:
        with evil_page(f"{guarded.url}/{KEY}", viewer.rstrip("/")) as page:
            read = await asyncio.to_thread(visit, page, tmp_path)
    assert read == []
    assert guarded.exchanges == []
    assert guarded.misused == []  # no fault of the agent's
    assert guarded.refused
