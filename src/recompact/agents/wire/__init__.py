"""The server's side of the wire formats: bodies to requests, and replies to bodies or streams of events."""
