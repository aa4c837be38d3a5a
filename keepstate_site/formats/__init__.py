"""How the admin writes dates and times: as everywhere else in this system, and not as a locale would."""
