"""The words that worlds are made of: names, notes, titles, topics. They are invented, and only there for variety."""

from __future__ import annotations

FIRST_NAMES = [
    "Ada",
    "Bruno",
    "Celia",
    "Dmitri",
    "Edda",
    "Farid",
    "Greta",
    "Hamid",
    "Ingrid",
    "Jonas",
    "Kalea",
    "Lorenz",
    "Mirela",
    "Niko",
    "Odile",
    "Pavel",
    "Quentin",
    "Rosa",
    "Stellan",
    "Tamsin",
    "Umberto",
    "Vesna",
    "Wanda",
    "Xenia",
    "Yorick",
    "Zelda",
    "Anouk",
    "Basil",
    "Carmen",
    "Dario",
    "Elin",
    "Felix",
    "Gwen",
    "Hugo",
    "Ilse",
    "Jasper",
]
LAST_NAMES = [
    "Quist",
    "Varga",
    "Moreau",
    "Okafor",
    "Lindgren",
    "Brandt",
    "Castell",
    "Dorn",
    "Eriksen",
    "Fonseca",
    "Galloway",
    "Hartig",
    "Ivanov",
    "Jansen",
    "Kessler",
    "Lowell",
    "Marchetti",
    "Nakano",
    "Orlov",
    "Petrescu",
    "Reyes",
    "Sandoval",
    "Tanaka",
    "Ulrich",
    "Voss",
    "Weller",
    "Yilmaz",
    "Zeller",
    "Abara",
    "Benoit",
]
STRANGERS = ("Marigold Books", "Harbor Cycles", "Piet the Baker", "Lantern Theatre")
CITIES = ("Lisbon", "Oslo", "Ghent", "Turin", "Graz", "Porto", "Aarhus", "Brno")

PAYMENT_NOTES = (
    "lunch",
    "coffee",
    "taxi",
    "groceries",
    "cinema",
    "birthday gift",
    "parking",
    "museum",
    "pizza",
    "train tickets",
    "bakery",
    "board game",
    "plants",
    "swimming",
)
REQUEST_NOTES = (
    "concert tickets",
    "team dinner",
    "bike repair",
    "paint",
    "ski pass",
    "book club",
    "barbecue",
    "moving van",
    "picnic",
    "escape room",
)
WEEKLY_EVENTS = ("Physiotherapy", "Choir practice", "Spanish class", "Climbing", "Pottery course")
PARTIES = ("Garden dinner", "Bowling night", "Boat trip", "Farewell brunch", "Karaoke evening", "Wine tasting")
MEETINGS = ("Budget review", "Harbor festival", "Library board", "Kitchen committee", "Website relaunch")
PLACES = ("Mill Street 4", "Hall B", "Studio 2", "Old Harbor", "Room 12", "River Park")
TRIPS = ("Tatra hike", "Sailing week", "Vienna weekend", "Ski cabin", "Canoe tour", "Lake house")
PROJECTS = ("Harborlight", "Bluebird", "Stonebridge", "Juniper", "Northgate")
CLUBS = ("Rowing club", "Chess club", "Garden club", "Film club", "Running club")
INVITED_TO = (
    "Housewarming",
    "Poetry reading",
    "Street party",
    "Quiz night",
    "Open studio",
    "Rooftop concert",
    "Cooking evening",
    "Photo walk",
    "Garden opening",
    "Chess evening",
)
AGENDA_POINTS = (
    "welcome, and who takes the notes this time",
    "figures of the last quarter, with time for questions",
    "schedule until the end of the season",
    "volunteers for the evening shifts in August",
    "costs of the new tables, and who pays in advance",
    "what we learned from the spring meeting",
    "letters that still have to be answered",
    "date and place of the next meeting",
)
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
