"""The web server of the viewer: loopback only, read-only, behind a token in the address.

A request must carry the token, come to our own host name (a foreign one may have been pointed here) and, where a
browser says so, from our own pages. Nothing is written, and pages may load nothing but our own style and script.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from recompact.engine.store.connection import writer_of
from recompact.engine.store.store import Store
from recompact.errors import InputError, RecompactError
from recompact.presentation.report.html.page import page_environment, page_style
from recompact.presentation.view.calls import call_page, calls_page
from recompact.presentation.view.case import case_page
from recompact.presentation.view.compare import compare_page, figures_page
from recompact.presentation.view.runs import (
    Page,
    Parameters,
    Place,
    RunLine,
    line_of,
    list_of_runs,
    places_of,
    run_page,
)
from recompact.presentation.view.templates import templates_page
from recompact.presentation.view.trajectory import trajectory_view
from recompact.presentation.view.verdicts import open_moment
from recompact.values.chat import sha256
from recompact.values.loopback import LoopbackServer, foreign_origin, is_among
from recompact.version import __version__, install_command

if TYPE_CHECKING:
    from aiohttp import web

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STATIC = {"view.css": "text/css", "view.js": "text/javascript"}
ADDRESS = 6_000  # characters of a query
EVERY = 1.0  # seconds between looks at the files


@dataclass(frozen=True)
class Viewer:
    """Which runs are looked at, the token that grants access, and the harnesses that templates can be exported to."""

    runs: tuple[str, ...]
    directory: Path
    token: str
    harnesses: tuple[str, ...] = ()

    def places(self) -> dict[str, Place]:
        """The runs that there are now, by their names in addresses."""
        return {place.name: place for place in places_of(self.runs, self.directory)}


@asynccontextmanager
async def serve(
    runs: Sequence[str], directory: Path, port: int = 0, token: str = "", harnesses: Sequence[str] = ()
) -> AsyncIterator[str]:
    """Serve while the block runs, and yield the address to open; port 0 takes any free one."""
    try:
        import aiohttp.web  # noqa: F401
    except ImportError:
        raise InputError(f"the viewer needs aiohttp: {install_command('server')}") from None
    viewer = Viewer(tuple(runs), directory, token or secrets.token_urlsafe(16), tuple(harnesses))
    server = LoopbackServer()
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise InputError(f"port {port} cannot be used ({error.strerror}): leave --port out") from None
    try:
        await server.start(_application(viewer, server), listener)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/{viewer.token}/"
    finally:
        await server.close()
        listener.close()


def _application(viewer: Viewer, server: LoopbackServer) -> web.Application:
    from aiohttp import web

    application = web.Application(middlewares=[_guard(viewer, server)])
    root = "/{token}"
    application.router.add_get(f"{root}/", partial(_page, viewer, None))
    application.router.add_get(f"{root}/events", partial(_events, viewer))
    application.router.add_get(f"{root}/static/{{name}}", _static)
    views: dict[str, View] = {
        "": run_page,
        "trajectory": trajectory_view,
        "case": case_page,
        "calls": calls_page,
        "call": call_page,
        "templates": partial(templates_page, viewer.harnesses),
        "compare": compare_page,
        "figures": figures_page,
    }
    for name, view in views.items():
        application.router.add_get(f"{root}/run/{{run}}/{name}", partial(_page, viewer, view))
    return application


View = Callable[[Store, RunLine, Parameters], Page]
Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]


def _guard(viewer: Viewer, server: LoopbackServer) -> Any:
    """The check that every request must pass; every answer gets the headers."""
    from aiohttp import web

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            _check(request, viewer)
            server.accept(request)
            response = await handler(request)
        except web.HTTPException as error:
            error.headers.update(HEADERS)
            raise
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    return guard


def _check(request: web.Request, viewer: Viewer) -> None:
    from aiohttp import web

    assert request.transport is not None
    port = request.transport.get_extra_info("sockname")[1]
    if reason := foreign_origin(request.headers, port):
        raise web.HTTPForbidden(text=f"Only the viewer's own pages may send requests to its own address: {reason}.\n")
    if not is_among(viewer.token, [request.path.split("/")[1]]):
        raise web.HTTPForbidden(text="The token is missing or wrong: open the address that `recompact view` printed.\n")
    if request.method not in ("GET", "HEAD"):
        raise web.HTTPMethodNotAllowed(request.method, ["GET", "HEAD"])


async def _page(viewer: Viewer, view: View | None, request: web.Request) -> web.StreamResponse:
    """A page, made in a thread: reading may take a while. Without a view it is the list of runs."""
    from aiohttp import web

    status = 200
    try:
        text = await asyncio.to_thread(_page_text, viewer, view, request.match_info.get("run"), dict(request.query))
    except RecompactError as error:
        status, text = 404, _render(viewer, "problem.html.jinja", problem=str(error))
    return web.Response(text=text, content_type="text/html", status=status)


def _page_text(viewer: Viewer, view: View | None, name: str | None, parameters: Parameters) -> str:
    places = viewer.places()
    if view is None or name is None:
        where = ", ".join(viewer.runs) or str(viewer.directory)
        return _render(viewer, "runs.html.jinja", lines=list_of_runs(places.values()), directory=where)
    if name not in places:
        raise InputError(f"the run {name!r} is gone")
    line = line_of(places[name])
    if line.problem:
        raise InputError(line.problem)
    with open_moment(line.place.path) as store:
        template, page = view(store, line, parameters)
        return _render(viewer, template, line=line, page=page)


def _render(viewer: Viewer, template: str, **values: Any) -> str:
    def link(place: Place, view: str = "", **parameters: Any) -> str:
        query = urlencode({key: value for key, value in parameters.items() if value not in ("", None)})
        if len(query) > ADDRESS:  # no browser or server would take it; the terminal shows it
            return "#content"
        return f"/{viewer.token}/run/{quote(place.name, safe='')}/{view}" + (f"?{query}" if query else "")

    shared = {"line": None, "root": f"/{viewer.token}", "link": link, "version": __version__}
    return page_environment("recompact.presentation.view.html").get_template(template).render({**shared, **values})


async def _static(request: web.Request) -> web.StreamResponse:
    from aiohttp import web

    name = request.match_info["name"]
    if name not in STATIC:
        raise web.HTTPNotFound(text="There is no such file.\n")
    text = (files("recompact.presentation.view.html") / name).read_text(encoding="utf-8")
    if name == "view.css":
        text = page_style() + text
    return web.Response(text=text, content_type=STATIC[name])


async def _events(viewer: Viewer, request: web.Request) -> web.StreamResponse:
    """A stream that says when a run file has changed: any of them, or the one that is named."""
    from aiohttp import web

    name = request.query.get("run", "")
    response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
    await response.prepare(request)
    before = None
    with suppress(ConnectionError, asyncio.CancelledError):
        while True:
            places = [place for place in viewer.places().values() if name in ("", place.name)]
            state = await asyncio.to_thread(_file_state, places)
            kind = "hello" if before is None else "changed" if state != before else ""
            await response.write(f"event: {kind}\ndata: {state}\n\n".encode() if kind else b": still here\n\n")
            before = state
            await asyncio.sleep(EVERY)
    return response


def _file_state(places: Iterable[Place]) -> str:
    """A digest that changes when a file, the log beside it or its writer does."""
    parts = []
    for place in places:
        for suffix in ("", "-wal"):
            try:
                status = place.path.with_name(place.path.name + suffix).stat()
                parts.append(f"{place.name}{suffix} {status.st_mtime_ns} {status.st_size}")
            except OSError:
                parts.append(f"{place.name}{suffix} gone")
        parts.append(f"{writer_of(place.path)}")
    return sha256("\n".join(parts))[:16]
