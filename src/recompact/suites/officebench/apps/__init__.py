"""The office apps of OfficeBench, one file each."""

from recompact.suites.officebench.apps.calculator import CALCULATOR
from recompact.suites.officebench.apps.calendar import CALENDAR
from recompact.suites.officebench.apps.excel import EXCEL
from recompact.suites.officebench.apps.mail import EMAIL
from recompact.suites.officebench.apps.pdf import PDF
from recompact.suites.officebench.apps.shell import SHELL
from recompact.suites.officebench.apps.word import WORD

APPS = {app.name: app for app in (CALENDAR, EXCEL, WORD, PDF, EMAIL, SHELL, CALCULATOR)}
"""All apps by name, except the system's own two actions, which are part of every episode."""
