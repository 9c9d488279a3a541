"""Who the owner is, the passwords of the apps, and logging in to them.

The two APIs of the account app need no token; every other app takes its `login` from here.
"""

from __future__ import annotations

import hashlib
import sqlite3
from typing import Any, Literal

from recompact.suites.pocket.database import select, setting
from recompact.suites.pocket.spec import ApiError, App, Arguments, Entry, Spec, may, need

UsernameKind = Literal["email", "phone"]
LOGINS: dict[str, UsernameKind] = {
    "contacts": "phone",
    "payments": "email",
    "calendar": "email",
    "mail": "email",
    "files": "phone",
}
"""What each app takes as the username."""
_WORDS = {"email": "email address", "phone": "phone number"}


ACCOUNT = App("account", "your profile and the passwords of your apps", [], token=False)


@ACCOUNT.read("Show who you are.", "{name, email, phone}")
def show_profile(db: sqlite3.Connection, _: Arguments) -> Any:
    return {key: setting(db, key) for key in ("name", "email", "phone")}


@ACCOUNT.read(
    "Show the passwords of your apps.",
    "{app: password}",
    may("app", "string", "only the password of this app", choices=tuple(LOGINS)),
)
def show_passwords(db: sqlite3.Connection, a: Arguments) -> Any:
    return {app: setting(db, f"password {app}") for app in LOGINS if a["app"] in (None, app)}


def login_entry(app: str) -> Entry:
    """The login of an app. It changes nothing that a task could ask for, so it counts as a read."""
    word = _WORDS[LOGINS[app]]

    def login(db: sqlite3.Connection, arguments: Arguments) -> Any:
        if arguments["username"] != setting(db, LOGINS[app]):
            raise ApiError(f"wrong username: {app} takes your {word} (see account.show_profile)")
        if arguments["password"] != setting(db, f"password {app}"):
            raise ApiError(f"wrong password for {app}: call account.show_passwords and use the one it gives")
        earlier = len(select(db, "select id from logins where app = ?", app))
        token = make_token(setting(db, "seed"), app, earlier)
        db.execute("insert into logins values (?, ?)", (token, app))
        return {"token": token}

    parameters = (
        need("username", "string", f"your {word}"),
        need("password", "string", "from account.show_passwords"),
    )
    description = f"Log in to {app}; the token is an argument of all its other APIs and stays valid."
    return Entry(Spec(app, "login", parameters, description, "{token}"), login)


def make_token(seed: str, app: str, earlier: int) -> str:
    """The token of a login: decided by the world, the app and how many logins there were before."""
    return f"{app[:3]}-{hashlib.sha256(f'{seed}/{app}/{earlier}'.encode()).hexdigest()[:8]}"
