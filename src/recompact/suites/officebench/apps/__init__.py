"""The office apps of OfficeBench."""

from recompact.suites.officebench.apps.documents import EXCEL, PDF, WORD
from recompact.suites.officebench.apps.machine import CALCULATOR, SHELL
from recompact.suites.officebench.apps.users import CALENDAR, EMAIL

APPS = {app.name: app for app in (CALENDAR, EXCEL, WORD, PDF, EMAIL, SHELL, CALCULATOR)}
"""All apps by name, except the system's own two actions, which are part of every episode."""
