"""The words that worlds are made of: names, notes, titles, topics. They are invented, and only there for variety."""

from __future__ import annotations

import tomllib
from importlib.resources import files

_WORDS: dict[str, list[str]] = tomllib.loads(
    files("recompact.suites.pocket").joinpath("vocabulary.toml").read_text(encoding="utf-8")
)

FIRST_NAMES = _WORDS["first_names"]
LAST_NAMES = _WORDS["last_names"]
STRANGERS = ("Marigold Books", "Harbor Cycles", "Piet the Baker", "Lantern Theatre")
CITIES = ("Lisbon", "Oslo", "Ghent", "Turin", "Graz", "Porto", "Aarhus", "Brno")

PAYMENT_NOTES = tuple(_WORDS["payment_notes"])
REQUEST_NOTES = tuple(_WORDS["request_notes"])
WEEKLY_EVENTS = ("Physiotherapy", "Choir practice", "Spanish class", "Climbing", "Pottery course")
PARTIES = ("Garden dinner", "Bowling night", "Boat trip", "Farewell brunch", "Karaoke evening", "Wine tasting")
MEETINGS = ("Budget review", "Harbor festival", "Library board", "Kitchen committee", "Website relaunch")
PLACES = ("Mill Street 4", "Hall B", "Studio 2", "Old Harbor", "Room 12", "River Park")
TRIPS = ("Tatra hike", "Sailing week", "Vienna weekend", "Ski cabin", "Canoe tour", "Lake house")
PROJECTS = ("Harborlight", "Bluebird", "Stonebridge", "Juniper", "Northgate")
CLUBS = ("Rowing club", "Chess club", "Garden club", "Film club", "Running club")
INVITED_TO = tuple(_WORDS["invited_to"])
AGENDA_POINTS = tuple(_WORDS["agenda_points"])
UTILITIES = ("internet", "electricity", "water", "heating")
PROVIDERS = ("Northlink", "Brightwire", "Clearwell", "Warmhaus")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August")
TOPICS = (
    ("Photos from Sunday", "The photos from Sunday are in the shared album now."),
    ("The recipe you asked for", "Here is the recipe that you asked for: slow oven, plenty of thyme."),
    ("Question about the weekend", "Do you already know when you will arrive on Saturday?"),
    ("Did I leave my umbrella at your place?", "I think that I left my umbrella at your place."),
    ("A draft for you to read", "Could you look over the second page when you have time?"),
    ("I will have a new number soon", "My number will change next month, I will write again."),
    ("About that book", "You were right about the ending of that book."),
    ("News from the neighbourhood", "They are closing the bridge for repairs until autumn."),
    ("Thank you for your help", "Thank you for your help with the shelves."),
)
NOTES = ("Shopping list", "Gift ideas", "Reading list", "Packing list", "Wifi at home", "Garden plan")
