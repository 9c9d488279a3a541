"""Hosts on the machines of a Ray cluster. The journal, the store and the limits of models stay with the driver."""
