"""The office apps of OfficeBench, one file each."""

from recompact.environments.officebench.apps.calculator import CALCULATOR
from recompact.environments.officebench.apps.calendar import CALENDAR
from recompact.environments.officebench.apps.excel import EXCEL
from recompact.environments.officebench.apps.mail import EMAIL
from recompact.environments.officebench.apps.pdf import PDF
from recompact.environments.officebench.apps.shell import SHELL
from recompact.environments.officebench.apps.word import WORD

APPS = {app.name: app for app in (CALENDAR, EXCEL, WORD, PDF, EMAIL, SHELL, CALCULATOR)}
"""All apps by name, except the system's own two actions, which are part of every episode."""
